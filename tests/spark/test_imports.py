"""What data sources import: Spark starts several processes for a read, and each of them imports it."""

from __future__ import annotations

import subprocess
import sys


def test_data_sources_import_nothing_that_only_tasks_need() -> None:
    """Numba and pandas take longer than all other imports together."""
    script = "import sys, headgate.spark.formats; print({'numba', 'pandas'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"

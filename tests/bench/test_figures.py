"""What a measurement counts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bench.pipeline.figures import Figure, processor_s, timed

WORK = "import time\nwhile time.process_time() < 0.3: pass"
WORK_OF_A_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WORK!r}])"


@pytest.mark.parametrize("program", [WORK, WORK_OF_A_CHILD], ids=["child", "its child"])
def test_processor_time_is_that_of_all_processes(program: str) -> None:
    """Of Spark's JVM and of its workers, which are children of this process and of the JVM."""

    def work() -> int:
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
        return 7

    before = processor_s()
    figure = timed("work", work)
    assert figure.rows == 7
    assert 0.25 < figure.cpu_seconds <= processor_s() - before


def test_a_row_of_the_table_has_a_rate_or_memory_or_connections() -> None:
    """Each kind of figure has cells of its own."""
    assert Figure("a", 3_000_000, 2.0, cpu_seconds=1.5).cells() == ("a", "2.00", "1.5", "1.50")
    assert Figure("b", 1, memory_bytes=5 << 20).cells() == ("b", "", "5 MiB", "")
    assert Figure("c", 1, connections=3).cells() == ("c", "", "3 connections", "")

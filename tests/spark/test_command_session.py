"""The Spark session that a command starts if there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from headgate.cli.spark import session

started = session("local[2]", "a command")
print("partitions:", started.conf.get("spark.sql.shuffle.partitions"))
"""


@pytest.mark.parametrize(("configured", "expected"), [("", "8"), ("spark.sql.shuffle.partitions 13\n", "13")])
def test_it_shuffles_into_few_partitions_unless_spark_is_configured(
    tmp_path: Path, configured: str, expected: str
) -> None:
    """On one machine most of Spark's 200 tasks would be empty. What `spark-defaults.conf` says is kept."""
    (tmp_path / "spark-defaults.conf").write_text(configured)
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert f"partitions: {expected}\n" in finished.stdout, finished.stderr

"""The log that the pipeline is measured on is the same each time, and has what it says."""

from __future__ import annotations

from pathlib import Path

from bench.pipeline.commit_log import make_log
from tests.spark.support import rows_of

from headgate.spark.source import OFFSET_COMMITS_VIEW


def test_the_measured_log_is_reproducible(tmp_path: Path) -> None:
    """The same bytes from the same number of commits; every commit is a row."""
    logs = []
    for name in ("a", "b"):
        assert make_log(tmp_path / name, 500, group_count=4) == 800
        files = sorted((tmp_path / name).rglob("*.log"))
        logs.append([(file.relative_to(tmp_path / name), file.read_bytes()) for file in files])
    assert logs[0] == logs[1]
    assert len(rows_of(OFFSET_COMMITS_VIEW, tmp_path / "a", "__consumer_offsets")) == 800

"""The log that the pipeline is measured on is the same each time, and has what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import pipeline
from tests.spark.support import rows_of

from headgate.spark.source import OFFSET_COMMITS_VIEW


def test_the_measured_log_is_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes from the same number of commits; every commit is a row."""
    monkeypatch.setattr(pipeline, "GROUPS", 4)
    logs = []
    for name in ("a", "b"):
        assert pipeline.make_log(tmp_path / name, 500) == 800
        files = sorted((tmp_path / name).rglob("*.log"))
        logs.append([(file.relative_to(tmp_path / name), file.read_bytes()) for file in files])
    assert logs[0] == logs[1]
    assert len(rows_of(OFFSET_COMMITS_VIEW, tmp_path / "a", "__consumer_offsets")) == 800

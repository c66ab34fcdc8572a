"""A data directory that is taken away under a running server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.waiting import wait_until

from headgate.broker import run


@pytest.mark.parametrize("what", ["data", "data/.lock"])
def test_a_server_stops_when_its_directory_is_taken_away(tmp_path: Path, what: str) -> None:
    """It would acknowledge what no next start finds; without its lock another server could write there."""
    with run(data_dir=tmp_path / "data") as broker:
        (tmp_path / what).rename(tmp_path / "elsewhere")
        process = broker._process
        assert process is not None
        wait_until(lambda: process.poll() is not None, "it ends", 20)
        assert process.returncode == 1
    said = broker.log_path.read_text()
    assert said.count("ERROR the data directory was removed or replaced") == 1
    assert "Traceback" not in said

"""Landed transactions and share states are what the coordinators say, from a real server and its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.logs_life import LogsLife

from headgate.broker import run
from headgate.spark.landing import land

SETTINGS = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.assignment.interval.ms": "100",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}


@pytest.mark.timeout(180)
def test_landed_logs_are_the_coordinators(tmp_path: Path) -> None:
    """Landed after each step or once at the end, over the wire or from the files of the stopped server."""
    each, once, files = (str(tmp_path / name) for name in ("each", "once", "files"))
    with run(SETTINGS, data_dir=tmp_path / "data") as broker:
        life = LogsLife(broker.bootstrap_servers)
        for _ in life.play():
            land(broker.bootstrap_servers, each)
        land(broker.bootstrap_servers, once)
        for target in (each, once):
            life.assert_landed(target)
        broker.stop()
        land(str(broker.data_dir), files, tables=["transactions", "share_deliveries"])
        broker.start()
        life.assert_landed(files)

"""The log of Apache Kafka is landed like that of Headgate: the tables say what its coordinator says."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.differential.conftest import Run
from tests.spark.coordinator_life import Life
from tests.spark.logs_life import LogsLife
from tests.waiting import wait_until

from headgate.client.cluster import LATEST, Cluster
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from headgate.spark.landing import land
from headgate.wire.messages.describe_log_dirs import DescribeLogDirsRequest

TABLES = ["transactions", "share_deliveries"]


@pytest.mark.timeout(300)
def test_landed_offsets_are_those_of_kafkas_coordinator(run: Run, tmp_path: Path) -> None:
    """After each step of a life, then as of each step, and with transactions open, aborted and committed."""
    bootstrap, target = f"{run.kafka.host}:{run.kafka.port}", str(tmp_path / "tables")
    life = Life(bootstrap, f"-landing{run.tag}")
    for _ in life.play():
        land(bootstrap, target)
        assert life.landed_now(target) == life.moments[-1].committed
    for _ in life.play_transactions():
        land(bootstrap, target)
        assert life.landed_now(target) == life.moments[-1].committed
    assert {
        offset.offset for (_, where), offset in life.landed_now(target).items() if where.partition == 1
    } == {13}
    whole, files = str(tmp_path / "whole"), str(tmp_path / "files")
    land(bootstrap, whole)
    land(str(data_directory(bootstrap)), files)
    for moment in life.moments:
        for landed in (target, whole, files):
            assert life.landed_at(landed, moment.time) == moment.committed
    assert life.landed_now(files) == life.moments[-1].committed
    assert topics_of(files) == topics_of(whole)
    assert land(bootstrap, files).rows["offset_commits"] == 0


@pytest.mark.timeout(300)
def test_landed_logs_are_those_of_kafkas_coordinators(run: Run, tmp_path: Path) -> None:
    """Transactions and share states: after each step, at once, and from its files."""
    bootstrap = f"{run.kafka.host}:{run.kafka.port}"
    each, once, files = (str(tmp_path / name) for name in ("each", "once", "files"))
    life = LogsLife(bootstrap, f"-logs{run.tag}")
    for _ in life.play():
        land(bootstrap, each, tables=TABLES)
    land(bootstrap, once, tables=TABLES)
    for target in (each, once):
        life.assert_landed(target)
    time.sleep(1)  # until the checkpoint of high watermarks
    land(str(data_directory(bootstrap)), files, tables=TABLES)
    life.assert_landed(files)


def data_directory(bootstrap: str) -> Path:
    """Return Kafka's data directory, when its checkpoint says that the coordinator's log is durable."""
    log = TopicPartition(GROUP_OFFSETS_TOPIC, 0)
    with Cluster(bootstrap) as cluster:
        end = cluster.list_offsets({log: LATEST})[log]
        (result,) = cluster.any_node().request(DescribeLogDirsRequest(topics=None)).results
    directory = Path(result.log_dir)
    checkpoint = directory / "replication-offset-checkpoint"
    wait_until(lambda: f"{log.topic} 0 {end}\n" in checkpoint.read_text(), "the high watermark on disk")
    return directory


def topics_of(target: str) -> set[tuple[str, str]]:
    """Return the topics in the samples of a target, each with its id."""
    return {(row["topic"], row["topic_id"]) for row in pq.read_table(f"{target}/end_offsets").to_pylist()}

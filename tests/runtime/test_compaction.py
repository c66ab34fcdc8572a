"""Compaction of the coordinator's log while the server runs: every restart loads every offset."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.runtime.wide_commits import NEW, OLD, Life, cut_short, simulated
from tests.waiting import wait_until

from headgate.broker import Broker, run
from headgate.client.cluster import Cluster
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId
from headgate.log.log import LogSettings
from headgate.runtime import record_batches
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "20000",
    "log.cleaner.backoff.ms": "50",
    "num.partitions": "8",
    "auto.create.topics.enable": "true",
}
GROUPS = [GroupId(f"group-{at}") for at in range(5)]
PARTITIONS = list(range(8))


def commit(cluster: Cluster, group: GroupId, offset: int) -> None:
    """Commit this offset for all partitions, and check the response."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in PARTITIONS
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    response = cluster.coordinator(group).request(OffsetCommitRequest(group_id=group, topics=topics), 9)
    assert {one.error_code for one in response.topics[0].partitions} == {0}


def offsets(broker: Broker) -> dict[str, set[int]]:
    """Return each group's committed offsets."""
    with Cluster(broker.bootstrap_servers) as cluster:
        found: dict[str, set[int]] = {}
        for group in GROUPS:
            asked = OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=PARTITIONS)]
            )
            response = cluster.coordinator(group).request(OffsetFetchRequest(groups=[asked]), 9)
            partitions = response.groups[0].topics[0].partitions
            assert len(partitions) == len(PARTITIONS)
            found[group] = {one.committed_offset for one in partitions}
        return found


def log_bytes(data_dir: Path) -> int:
    """Return the size of the segments of the coordinator's log."""
    return sum(path.stat().st_size for path in (data_dir / f"{GROUP_OFFSETS_TOPIC}-0").glob("*.log"))


def test_a_log_of_many_commits_shrinks_and_every_offset_survives_crashes_and_restarts(tmp_path: Path) -> None:
    """Thousands of commits of few keys: the log remains small, and no committed offset decreases."""
    data_dir = tmp_path / "data"
    written = 0
    with run(SETTINGS, data_dir=data_dir) as broker:
        for life in range(1, 4):
            with Cluster(broker.bootstrap_servers) as cluster:
                wanted = CreatableTopic(name="t", num_partitions=8, replication_factor=1)
                cluster.any_node().request(CreateTopicsRequest(topics=[wanted]))
                for at in range(200):
                    for group in GROUPS:
                        commit(cluster, group, life * 1000 + at)
                    written += len(GROUPS)
            broker.kill()
            broker.start()
            assert offsets(broker) == {group: {life * 1000 + 199} for group in GROUPS}
        # 3000 commits of 8 partitions are several hundred kilobytes.
        wait_until(
            lambda: log_bytes(data_dir) <= 60_000, lambda: f"little left of {log_bytes(data_dir)} bytes", 20
        )
        assert log_bytes(data_dir) <= 60_000
        assert offsets(broker) == {group: {3199} for group in GROUPS}
        broker.restart()
        assert offsets(broker) == {group: {3199} for group in GROUPS}


def test_a_torn_commit_leaves_no_trace_through_compaction_and_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wide commit that a crash cut short, compacted with the records around it, has no effect (R3.13)."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 1500)

    async def scenario() -> None:
        torn = 0
        for torn_bytes in (0, 700, 1600, 2500, 3300, 100_000):
            _, files = await cut_short(0, torn_bytes)
            files.crash(Random(torn_bytes))
            life = Life(files)
            await life.runtime.load()
            expected = await life.offsets()
            torn += life.partition.log.log_end_offset > len(OLD) + len(NEW) or expected == OLD
            log = life.partition.log
            log.settings = LogSettings(segment_bytes=1)
            await life.commit({1000: 1})
            await life.commit({1000: 2})
            await life.commit({1000: 3})
            life.compact(now_ms=0)
            assert sum(header.record_count for header, _ in log.batches()) < log.log_end_offset
            assert await life.offsets() == {**expected, 1000: 3}
            life.end()
            again = Life(files)
            await again.runtime.load()
            assert await again.offsets() == {**expected, 1000: 3}
            assert expected in (OLD, NEW)
            again.end()
        assert torn

    simulated(scenario)

"""Conditional commits over many connections at once (R3.16): an exact compare-and-set."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from headgate.broker import run
from headgate.client.cluster import Cluster
from headgate.client.errors import OffsetsMoved
from headgate.client.offsets import CommittedOffset, commit_offsets, fetch_offsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

pytestmark = pytest.mark.timeout(120)
PARTITIONS = [TopicPartition(TopicName("counters"), index) for index in range(200)]
CONNECTIONS = 8


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    """Run a server with a topic of counters."""
    with run({"offsets.topic.num.partitions": "2"}) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            topic = CreatableTopic(name="counters", num_partitions=len(PARTITIONS), replication_factor=1)
            created = cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
            assert created.topics[0].error_code == ErrorCode.NONE
        yield broker.bootstrap_servers


def increment(bootstrap_servers: str, group: GroupId, counters: list[TopicPartition], times: int) -> int:
    """Add one to all counters, `times` times. Return how often another client was faster."""
    lost = 0
    with Cluster(bootstrap_servers) as cluster:
        for _ in range(times):
            now: dict[TopicPartition, int | None] = dict.fromkeys(counters)
            while True:
                following = {each: 0 if offset is None else offset + 1 for each, offset in now.items()}
                try:
                    commit_offsets(cluster, group, following, expected=now)
                    break
                except OffsetsMoved as moved:
                    lost += 1
                    now |= moved.current
    return lost


@pytest.mark.parametrize(("width", "times"), [(1, 25), (3, 15), (len(PARTITIONS), 5)])
def test_counters_that_many_connections_increment_are_exact(
    bootstrap_servers: str, width: int, times: int
) -> None:
    """No increment is lost or counted twice; a wide commit increments all partitions or none.

    A rejected commit returns the committed offsets, so a client retries without a fetch.
    """
    group, counters = GroupId(f"of-{width}"), PARTITIONS[:width]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        lost = list(pool.map(partial(increment, bootstrap_servers, group, counters), [times] * CONNECTIONS))
    with Cluster(bootstrap_servers) as cluster:
        found = fetch_offsets(cluster, group)
    assert found == dict.fromkeys(counters, CommittedOffset(CONNECTIONS * times - 1))
    assert sum(lost) > 0, "nobody ever was in anybody's way"


def test_a_repeated_conditional_commit_is_checked_again(bootstrap_servers: str) -> None:
    """The request has the same bytes, among unconditional ones that differ only in their offset."""
    group = GroupId("again")

    def request(offset: int, expected: int | None) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, expected_offset=expected
        )
        topic = OffsetCommitRequestTopic(name="counters", partitions=[partition])
        return OffsetCommitRequest(group_id=group, topics=[topic])

    with Cluster(bootstrap_servers) as cluster:
        node = cluster.coordinator(group)
        answers = []
        for offset, expected in [(5, None)] * 3 + [(6, 5)] * 3 + [(5, None)] * 3 + [(7, 5), (6, 7), (7, 5)]:
            (answer,) = node.request(request(offset, expected), 9).topics[0].partitions
            answers.append((answer.error_code, answer.current_offset))
    done, at_6 = (0, None), (int(ErrorCode.INVALID_UPDATE_VERSION), 6)
    assert answers == [done] * 3 + [done, at_6, at_6] + [done] * 3 + [done, done, at_6]

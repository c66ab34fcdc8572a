"""DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, OffsetForLeaderEpoch, InitProducerId and the
rest.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.api_topics.node import OneNode
from tests.topics.disk import DATA, NOW, batch
from tests.topics.disk import append as append_durably

from headgate.api import (
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k35_describe_log_dirs,
    k46_list_partition_reassignments,
    k60_describe_cluster,
    k75_describe_topic_partitions,
)
from headgate.api.topic_answers import NOT_ASKED, TOPIC_OPERATIONS
from headgate.domain.errors import ErrorCode
from headgate.log.filesystem import Fault
from headgate.wire.messages.describe_cluster import DescribeClusterRequest
from headgate.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headgate.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headgate.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_node(node: OneNode, version: int) -> None:
    """It is broker and controller."""
    answer = node.ask(k60_describe_cluster.API, DescribeClusterRequest(), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (ErrorCode.NONE, "test-cluster", 1)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(1, "localhost", 9092)]


@pytest.mark.parametrize(
    ("endpoint", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_only_brokers_are_described_here(node: OneNode, endpoint: int, error: ErrorCode) -> None:
    """Controllers have no endpoint, and other types do not exist."""
    answer = node.ask(k60_describe_cluster.API, DescribeClusterRequest(endpoint_type=endpoint))
    assert (answer.error_code, answer.brokers) == (error, [])


def pages(node: OneNode, *names: str, limit: int) -> list[list[tuple[str, int, list[int]]]]:
    """All pages: topics with their errors and the partitions told."""
    result = []
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        answer = node.ask(k75_describe_topic_partitions.API, request)
        result.append(
            [
                (topic.name, topic.error_code, [one.partition_index for one in topic.partitions])
                for topic in answer.topics
            ]
        )
        if answer.next_cursor is None:
            return result
        cursor = Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )


def test_topics_come_in_pages(node: OneNode) -> None:
    """Sorted by name, each partition once, no page over its limit."""
    node.topic("b", 3)
    node.topic("a", 2)
    assert pages(node, limit=2000) == [[("a", 0, [0, 1]), ("b", 0, [0, 1, 2])]]
    assert pages(node, limit=2) == [[("a", 0, [0, 1])], [("b", 0, [0, 1])], [("b", 0, [2])]]
    assert pages(node, limit=3) == [[("a", 0, [0, 1]), ("b", 0, [0])], [("b", 0, [1, 2])]]
    assert len(pages(node, limit=-5)) == 5


def test_an_unknown_topic_has_an_error_in_its_place(node: OneNode) -> None:
    """Only topics asked for by name can be unknown."""
    node.topic("b")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert pages(node, "c", "b", "a", limit=10) == [[("a", unknown, []), ("b", 0, [0]), ("c", unknown, [])]]


@pytest.mark.parametrize("name", ["bad name", "", ".", "x" * 300])
def test_an_invalid_name_has_its_own_error(node: OneNode, name: str) -> None:
    """The other topics are described."""
    node.topic("b")
    told = [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, []), ("b", 0, [0])]
    assert pages(node, "b", name, limit=10) == [sorted(told)]


def test_a_missing_topic_has_the_operations_of_any_other(node: OneNode) -> None:
    """As in Kafka; an invalid cursor is told without them."""
    node.topic("there")

    def ask(cursor: Cursor | None = None) -> list[int]:
        names = [TopicRequest(name=name) for name in ("missing", "bad name", "there")]
        request = DescribeTopicPartitionsRequest(topics=names, cursor=cursor)
        answer = node.ask(k75_describe_topic_partitions.API, request)
        return [one.topic_authorized_operations for one in answer.topics]

    assert ask() == [TOPIC_OPERATIONS] * 3
    assert ask(Cursor(topic_name="other", partition_index=0)) == [NOT_ASKED] * 3


def test_no_page_is_larger_than_kafkas(node: OneNode) -> None:
    """2000 partitions, whatever the request asks for."""
    node.topic("wide", 4001)
    assert [len(page[0][2]) for page in pages(node, limit=1 << 30)] == [2000, 2000, 1]


def test_an_invalid_cursor_is_refused(node: OneNode) -> None:
    """A negative partition, or a topic not asked for; one past the end is the end."""
    node.topic("a")

    def ask(index: int, name: str = "a") -> Any:
        cursor = Cursor(topic_name=name, partition_index=index)
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")], cursor=cursor)
        return node.ask(k75_describe_topic_partitions.API, request).topics[0]

    assert ask(-1).error_code == ErrorCode.INVALID_REQUEST
    assert ask(0, "b").error_code == ErrorCode.INVALID_REQUEST
    assert ask(0, "A").error_code == ErrorCode.INVALID_REQUEST
    assert (ask(7).error_code, ask(7).partitions) == (ErrorCode.NONE, [])


def test_log_directories_have_sizes(node: OneNode) -> None:
    """Of all partitions for null, else of those asked for; unknown topics are omitted."""
    topic = node.topic("letters", 2)
    sent = batch(b"a")
    topic.partition(1).append(sent, NOW)
    for version in range(1, 6):
        answer = node.ask(k35_describe_log_dirs.API, DescribeLogDirsRequest(topics=None), version)
        sizes = [one.partition_size for one in answer.results[0].topics[0].partitions]
        assert sizes == [0, len(sent)]
    wanted = [
        DescribableLogDirTopic(topic="letters", partitions=[1, 7]),
        DescribableLogDirTopic(topic="x", partitions=[0]),
    ]
    answer = node.ask(k35_describe_log_dirs.API, DescribeLogDirsRequest(topics=wanted))
    partitions = [[one.partition_index for one in topic.partitions] for topic in answer.results[0].topics]
    assert partitions == [[1]]


def test_a_log_that_cannot_be_opened_is_left_out_of_a_description(node: OneNode) -> None:
    """The others are described."""
    for name in ("good", "bad"):
        topic = node.topic(name)
        append_durably(topic, b"a")
        topic.partition(0).delete_records(1)
    node.topics.close()
    node.disk.files.open(DATA / "bad-0" / "headgate.checkpoint").pwrite(b"X", 5)
    node.topics = node.disk.start()
    (answer,) = node.ask(k35_describe_log_dirs.API, DescribeLogDirsRequest(topics=None)).results
    described = {topic.name: len(topic.partitions) for topic in answer.topics}
    assert (answer.error_code, described.get("good"), "bad" in described) == (ErrorCode.NONE, 1, False)
    wanted = [DescribableLogDirTopic(topic="bad", partitions=[0])]
    (answer,) = node.ask(k35_describe_log_dirs.API, DescribeLogDirsRequest(topics=wanted)).results
    assert (answer.error_code, answer.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


def epoch_end(node: OneNode, epoch: int, *, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="letters", partitions=[wanted])])
    answer = node.ask(k23_offset_for_leader_epoch.API, request).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


def append(node: OneNode, *, durably: bool = True) -> None:
    topic = node.topics.by_name("letters")
    assert topic is not None
    partition = topic.partition(0)
    partition.append(batch(b"a"), NOW)
    if durably:
        node.durability.when_durable(partition.log, partition.synced)


def test_end_offsets_of_leader_epochs(node: OneNode) -> None:
    """A reader of a lost tail learns up to where its records are valid, also after more restarts."""
    node.topic("letters", headgate_durability="page-cache")
    append(node)
    append(node)
    append(node, durably=False)
    assert epoch_end(node, 0) == (ErrorCode.NONE, 0, 3)
    node.restart(crash=True)
    assert epoch_end(node, 0) == (ErrorCode.NONE, 0, 2)
    append(node)
    for is_crash in (True, True):
        node.restart(crash=is_crash)
    append(node)
    node.restart()
    assert [epoch_end(node, epoch) for epoch in range(5)] == [
        (ErrorCode.NONE, 0, 2),
        (ErrorCode.NONE, 1, 3),
        (ErrorCode.NONE, 1, 3),
        (ErrorCode.NONE, 3, 4),
        (ErrorCode.NONE, -1, -1),
    ]


def test_leader_epochs_are_checked_before_they_are_answered(node: OneNode) -> None:
    """Unknown partitions, old epochs and future ones have their errors."""
    node.topic("letters")
    assert epoch_end(node, 0) == (ErrorCode.NONE, 0, 0)
    assert epoch_end(node, 0, partition=1)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert epoch_end(node, 0, current=1)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    node.restart(crash=True)
    assert epoch_end(node, 0, current=0)[0] == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_are_unique(node: OneNode, version: int) -> None:
    """With epoch 0."""
    answers = [
        node.ask(k22_init_producer_id.API, InitProducerIdRequest(transactional_id=None), version)
        for _ in range(3)
    ]
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    assert len({answer.producer_id for answer in answers}) == 3
    assert {answer.producer_epoch for answer in answers} == {0}


def test_a_disk_error_is_retriable_for_producer_ids(node: OneNode) -> None:
    """Clients retry the error."""
    node.disk.files.inject(Fault(errno.ENOSPC, "pwrite"))
    assert node.ask(k22_init_producer_id.API, InitProducerIdRequest(transactional_id=None)).error_code == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert (
        node.ask(k22_init_producer_id.API, InitProducerIdRequest(transactional_id=None)).error_code
        == ErrorCode.NONE
    )


def test_there_are_no_reassignments(node: OneNode) -> None:
    """There is one node."""
    answer = node.ask(k46_list_partition_reassignments.API, ListPartitionReassignmentsRequest(topics=None))
    assert (answer.error_code, answer.topics) == (ErrorCode.NONE, [])

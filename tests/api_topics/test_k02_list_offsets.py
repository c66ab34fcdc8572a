"""ListOffsets: first and last offsets, offsets by time, and invalid requests."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api_topics.node import OneNode
from tests.topics.disk import NOW, batch

from headgate.api import k02_list_offsets
from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch
from headgate.topics.topic import Topic
from headgate.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


def ask(node: OneNode, timestamp: int, version: int = 11, *, partition: int = 0, epoch: int = -1) -> Any:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="letters", partitions=[wanted])])
    return node.ask(k02_list_offsets.API, request, version).topics[0].partitions[0]


def fill(node: OneNode, *, codec: int = 3) -> Topic:
    """Ten records at NOW + 0, 10, 20, ... in batches of two, the last batch not durable."""
    topic = node.topic("letters")
    partition = topic.partition(0)
    for first in range(0, 10, 2):
        records = [Record(b"k", b"v", NOW + 10 * one) for one in (first, first + 1)]
        assert partition.append(bytes(encode_batch(records, codec=codec)), NOW).error == ErrorCode.NONE
        if first < 8:
            node.durability.when_durable(partition.log, partition.synced)
    return topic


ANSWERS = [
    ("latest is the high watermark", -1, (-1, 8)),
    ("earliest", -2, (-1, 0)),
    ("local earliest", -4, (-1, 0)),
    ("greatest timestamp, of what is durable", -3, (NOW + 70, 7)),
    ("latest tiered", -5, (-1, -1)),
    ("earliest pending upload", -6, (-1, -1)),
    ("before everything", 0, (NOW, 0)),
    ("exactly one record", NOW + 30, (NOW + 30, 3)),
    ("between two records", NOW + 21, (NOW + 30, 3)),
    ("inside a batch", NOW + 41, (NOW + 50, 5)),
    ("only what is not yet durable", NOW + 75, (-1, -1)),
    ("after everything", NOW + 1000, (-1, -1)),
]


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize(
    ("timestamp", "answer"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
def test_offsets_by_timestamp(node: OneNode, timestamp: int, answer: tuple[int, int], codec: int) -> None:
    """The first visible record at or after the time, exactly, in compressed batches too."""
    fill(node, codec=codec)
    found = ask(node, timestamp)
    assert (found.error_code, found.timestamp, found.offset) == (ErrorCode.NONE, *answer)


def test_the_greatest_timestamp(node: OneNode) -> None:
    """-3 finds its record, wherever in the log it is, and the first one of several."""
    topic = node.topic("letters")
    partition = topic.partition(0)
    for timestamp in (NOW, NOW + 500, NOW + 100, NOW + 500):
        partition.append(batch(b"v", timestamp=timestamp), NOW)
    node.durability.when_durable(partition.log, partition.synced)
    found = ask(node, -3)
    assert (found.timestamp, found.offset) == (NOW + 500, 1)


@pytest.mark.parametrize(("timestamp", "answer"), [(-1, 0), (-2, 0), (-3, -1), (0, -1)])
def test_a_partition_never_written(node: OneNode, timestamp: int, answer: int) -> None:
    """It starts and ends at 0, and no timestamp is found; the request creates no files."""
    topic = node.topic("letters")
    found = ask(node, timestamp)
    assert (found.error_code, found.offset) == (ErrorCode.NONE, answer)
    assert not topic.is_written(0)


REFUSALS = [
    ("-3 before version 7", -3, 6, ErrorCode.UNSUPPORTED_VERSION),
    ("-4 before version 8", -4, 7, ErrorCode.UNSUPPORTED_VERSION),
    ("-5 before version 9", -5, 8, ErrorCode.UNSUPPORTED_VERSION),
    ("-6 before version 11", -6, 10, ErrorCode.UNSUPPORTED_VERSION),
    ("-7", -7, 11, ErrorCode.UNSUPPORTED_VERSION),
]


@pytest.mark.parametrize(
    ("timestamp", "version", "error"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_unknown_special_timestamps_are_refused(
    node: OneNode, timestamp: int, version: int, error: ErrorCode
) -> None:
    """A negative timestamp that the version does not define is an error, of unknown partitions too."""
    fill(node)
    found = ask(node, timestamp, version)
    assert (found.error_code, found.offset) == (error, -1)
    assert ask(node, timestamp, version, partition=5).error_code == error


def test_an_unknown_partition_has_its_own_error(node: OneNode) -> None:
    """In every version: the Java client retries a less specific error without a pause."""
    node.topic("letters")
    for version in range(1, 12):
        assert ask(node, -1, version, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_same_partition_twice_is_refused(node: OneNode) -> None:
    """Neither of the two is answered."""
    fill(node)
    wanted = [ListOffsetsPartition(timestamp=-1), ListOffsetsPartition(timestamp=-2)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="letters", partitions=wanted)])
    answers = node.ask(k02_list_offsets.API, request).topics[0].partitions
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_stale_leader_epoch_is_refused(node: OneNode) -> None:
    """A client from before a crash, or ahead of the broker, must refresh its metadata first."""
    fill(node)
    node.restart(crash=True)
    assert ask(node, -1, epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(node, -1, epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    answer = ask(node, -1, epoch=1)
    assert (answer.error_code, answer.leader_epoch) == (ErrorCode.NONE, 1)
    assert ask(node, -2, epoch=1).leader_epoch == 0

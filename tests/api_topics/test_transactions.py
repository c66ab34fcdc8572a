"""What Fetch, ListOffsets and DescribeProducers answer about transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.api_topics.node import OneCall, OneNode
from tests.topics.disk import NOW, append, batch
from tests.topics.transactions import Writer

from headgate.api import k01_fetch, k02_list_offsets, k61_describe_producers
from headgate.domain.errors import ErrorCode
from headgate.topics.topic import Topic
from headgate.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.wire.wide import WideStructs

COMMITTED, UNCOMMITTED = 1, 0


def fetch(
    node: OneNode, offset: int = 0, *, isolation: int = COMMITTED, max_wait_ms: int = 500, min_bytes: int = 1
) -> OneCall:
    """Send a fetch."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        topics=[FetchTopic(topic="letters", partitions=[wanted])],
        isolation_level=isolation,
        max_bytes=1 << 20,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
    )
    return node.send(k01_fetch.API, request, 12)


def fetched(call: OneCall) -> Any:
    return call.response.responses[0].partitions[0]


def latest(node: OneNode, timestamp: int, isolation: int) -> tuple[int, int]:
    """Return timestamp and offset of ListOffsets."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        isolation_level=isolation, topics=[ListOffsetsTopic(name="letters", partitions=[wanted])]
    )
    found = node.ask(k02_list_offsets.API, request, 11).topics[0].partitions[0]
    assert found.error_code == ErrorCode.NONE
    return found.timestamp, found.offset


@pytest.fixture
def topic(node: OneNode) -> Topic:
    return node.topic("letters")


def test_a_fetch_of_committed_records_lists_the_aborted_transactions(node: OneNode, topic: Topic) -> None:
    """And no other fetch does."""
    writer, other = Writer(topic, 7), Writer(topic, 8)
    writer.write(b"a")
    other.write(b"b")
    writer.end(is_committed=False)
    partition = fetched(fetch(node))
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)
    assert [(one.producer_id, one.first_offset) for one in partition.aborted_transactions] == [(7, 0)]
    assert len(partition.records) == len(batch(b"a"))
    partition = fetched(fetch(node, isolation=UNCOMMITTED))
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)
    assert partition.aborted_transactions is None
    assert len(partition.records) > 3 * len(batch(b"a")) - 20


def test_a_long_poll_for_committed_records_waits_for_the_marker(node: OneNode, topic: Topic) -> None:
    """Neither the batch of the transaction nor records after it wake it; a reader of all records is woken."""
    writer = Writer(topic, 7)
    committed, uncommitted = fetch(node), fetch(node, isolation=UNCOMMITTED)
    writer.write(b"a")
    append(topic, b"after")
    node.pass_time()
    assert uncommitted.is_finished and not committed.is_finished
    writer.end(is_committed=True, is_durable=False)
    node.pass_time()
    assert not committed.is_finished, "the marker is not durable"
    append(topic, b"more")
    node.pass_time()
    partition = fetched(committed)
    assert (partition.last_stable_offset, partition.aborted_transactions) == (4, [])
    assert not len(node.topics.committed_waiters)


def test_min_bytes_are_counted_up_to_the_last_stable_offset(node: OneNode, topic: Topic) -> None:
    """Visible records after it do not count."""
    append(topic, b"a")
    Writer(topic, 7).write(b"open" * 100)
    call = fetch(node, min_bytes=200)
    assert not call.is_finished
    append(topic, b"b" * 300)
    node.pass_time()
    assert not call.is_finished
    node.pass_time(500)
    assert len(fetched(call).records) == len(batch(b"a"))


def test_bytes_without_transactions_are_counted_for_committed_readers_too(
    node: OneNode, topic: Topic
) -> None:
    """A reader is not woken for each append."""
    size = len(batch(b"a"))
    call = fetch(node, min_bytes=3 * size)
    for _ in range(2):
        append(topic, b"a")
        node.pass_time()
        assert not call.is_finished
    append(topic, b"a")
    node.pass_time()
    assert len(fetched(call).records) == 3 * size


def test_a_fetch_between_the_offsets_is_empty(node: OneNode, topic: Topic) -> None:
    """From the last stable offset on there is nothing yet; it is no error."""
    writer = Writer(topic, 7)
    writer.write(b"a")
    writer.write(b"b")
    partition = fetched(fetch(node, 1, max_wait_ms=0))
    assert (partition.error_code, partition.records) == (ErrorCode.NONE, b"")
    assert partition.aborted_transactions == []
    beyond = fetched(fetch(node, 3, max_wait_ms=0))
    assert (beyond.error_code, beyond.aborted_transactions) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def test_offsets_by_isolation_level(node: OneNode, topic: Topic) -> None:
    """The latest is the last stable offset for committed readers, and nothing after it is found."""
    append(topic, b"a")
    writer = Writer(topic, 7)
    writer.write(b"b")
    for timestamp, uncommitted, committed in (
        (-1, (-1, 2), (-1, 1)),
        (-2, (-1, 0), (-1, 0)),
        (-3, (NOW, 0), (NOW, 0)),
        (NOW, (NOW, 0), (NOW, 0)),
    ):
        assert latest(node, timestamp, UNCOMMITTED) == uncommitted
        assert latest(node, timestamp, COMMITTED) == committed
    topic.partition(0).delete_records(1)
    assert latest(node, NOW, UNCOMMITTED) == latest(node, -3, UNCOMMITTED) == (NOW, 1)
    assert latest(node, NOW, COMMITTED) == latest(node, -3, COMMITTED) == (-1, -1)


def test_producers_are_described(node: OneNode, topic: Topic) -> None:
    """With the open transaction, and the coordinator of the last one; also after a restart."""
    idle, busy = Writer(topic, 7, epoch=2), Writer(topic, 8)
    idle.write(b"a", b"b")
    idle.end(is_committed=True, coordinator_epoch=5)
    busy.write(b"c")
    Writer(topic, 9).end(is_committed=False, epoch=4)
    append(topic, b"d", producer=(10, 0, 0))
    expected = [(7, 2, 1, 5, -1), (8, 0, 0, -1, 3), (9, 4, -1, 0, -1), (10, 0, 0, -1, -1)]
    for crash in (None, False, True):
        if crash is not None:
            node.restart(crash=crash)
        topics = [
            TopicRequest(name="letters", partition_indexes=[0, 1]),
            TopicRequest(name="nothing", partition_indexes=[0]),
            TopicRequest(name="no/name", partition_indexes=[0]),
        ]
        answer = node.ask(k61_describe_producers.API, DescribeProducersRequest(topics=topics), 0)
        known, no_partition = answer.topics[0].partitions
        assert known.error_code == ErrorCode.NONE
        assert (
            sorted(
                (
                    one.producer_id,
                    one.producer_epoch,
                    one.last_sequence,
                    one.coordinator_epoch,
                    one.current_txn_start_offset,
                )
                for one in known.active_producers
            )
            == expected
        )
        assert {one.last_timestamp for one in known.active_producers} == {NOW}
        (no_topic,) = answer.topics[1].partitions
        assert answer.topics[2].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (no_partition.error_code, no_partition.error_message) == (unknown, None)
        assert (no_topic.error_code, no_topic.error_message is not None) == (unknown, True)


def test_a_partition_that_is_named_again_is_described_once(node: OneNode, topic: Topic) -> None:
    """A small request has no response without bounds."""
    Writer(topic, 7).write(b"a")
    again = TopicRequest(name="letters", partition_indexes=[0] * 1000)
    request = DescribeProducersRequest(topics=[again, again])
    first, second = node.ask(k61_describe_producers.API, request, 0).topics
    assert [len(one.active_producers) for one in first.partitions] == [1]
    assert not second.partitions


@pytest.mark.parametrize("is_parked", [False, True])
def test_a_response_with_very_many_aborted_transactions_is_encoded_aside(
    node: OneNode, topic: Topic, monkeypatch: pytest.MonkeyPatch, is_parked: bool
) -> None:
    """It would hold the loop: 25 ms for 350,000. One with few is not."""
    aside = 0
    answer_aside = OneCall.answer_aside

    def counted(call: OneCall, make: Callable[[], Any]) -> None:
        nonlocal aside
        aside += 1
        answer_aside(call, make)

    monkeypatch.setattr(OneCall, "answer_aside", counted)
    monkeypatch.setattr(k01_fetch, "_MOST_ABORTED_AT_ONCE", 3)
    for number in range(3):
        aborted(topic, number)
    call = fetch(node, min_bytes=1000 if is_parked else 1)
    if is_parked:
        node.pass_time(500)
    assert (len(fetched(call).aborted_transactions), aside) == (3, 0)
    aborted(topic, 3)
    call = fetch(node, min_bytes=1000 if is_parked else 1)
    if is_parked:
        node.pass_time(500)
    assert (len(fetched(call).aborted_transactions), aside) == (4, 1)


def aborted(topic: Topic, producer_id: int) -> None:
    writer = Writer(topic, producer_id)
    writer.write(b"a")
    writer.end(is_committed=False)


def test_many_aborted_transactions_are_listed_in_columns(node: OneNode, topic: Topic) -> None:
    """Also those of several segments; what the client reads is the same as for few."""
    expected = []
    for producer_id in range(40):
        writer = Writer(topic, producer_id)
        expected.append((producer_id, writer.write(b"a" * 100)))
        writer.end(is_committed=False)
    data = fetched(fetch(node))
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == expected
    aborted = topic.partition(0).log.segments.aborted(0, 1 << 30, 80)
    assert list(aborted) == expected
    assert isinstance(k01_fetch._listed(aborted), WideStructs)
    assert len(list(k01_fetch._listed(aborted.together([])))) == 0

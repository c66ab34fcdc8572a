"""Fetch: the records of a response, long polls, and the results that a session omits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api_topics.node import OneCall, OneNode
from tests.topics.disk import NOW, batch

from headgate.api import k01_fetch
from headgate.domain.errors import ErrorCode
from headgate.log.batch import iterate_records
from headgate.topics.topic import Topic
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


def append(topic: Topic, *values: bytes, partition: int = 0) -> None:
    """Records that are durable and visible."""
    found = topic.partition(partition)
    assert found.append(batch(*values), NOW).error == ErrorCode.NONE
    request = found.log.begin_sync()
    request.run()
    found.log.complete_sync(request)
    found.advance()


def wanted(*partitions: tuple[int, int], topic: str = "letters", max_bytes: int = 1 << 20) -> FetchTopic:
    """Partitions with the offset to read from."""
    return FetchTopic(
        topic=topic,
        partitions=[
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
            for index, offset in partitions
        ],
    )


def values(partition: Any) -> list[bytes | None]:
    return [record.value for _, record in iterate_records(partition.records)]


def found(response: Any) -> dict[int, list[bytes | None]]:
    """The values of every partition that is mentioned."""
    return {one.partition_index: values(one) for topic in response.responses for one in topic.partitions}


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(node: OneNode, version: int) -> None:
    """By name or by id, with records and watermarks."""
    topic = node.topic("letters")
    append(topic, b"a", b"b")
    one = wanted((0, 0))
    one.topic_id = topic.topic_id
    answer = node.ask(k01_fetch.API, FetchRequest(topics=[one], isolation_level=1), version)
    partition = answer.responses[0].partitions[0]
    assert values(partition) == [b"a", b"b"]
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
    assert partition.aborted_transactions == []


REFUSALS = [
    ("beyond the end", wanted((0, 4)), ErrorCode.OFFSET_OUT_OF_RANGE),
    ("below the start", wanted((0, 0)), ErrorCode.OFFSET_OUT_OF_RANGE),
    ("a negative offset", wanted((0, -1)), ErrorCode.OFFSET_OUT_OF_RANGE),
    ("no such partition", wanted((9, 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("a negative partition", wanted((-1, 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("no such topic", wanted((0, 0), topic="nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
]


@pytest.mark.parametrize(("one", "error"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_refused_partition_has_no_watermarks(node: OneNode, one: FetchTopic, error: ErrorCode) -> None:
    """It is answered at once, with -1 for every watermark."""
    topic = node.topic("letters")
    append(topic, b"a", b"b", b"c")
    topic.partition(0).delete_records(1)
    answer = node.ask(k01_fetch.API, FetchRequest(topics=[one], max_wait_ms=500, min_bytes=1), 12)
    partition = answer.responses[0].partitions[0]
    watermarks = partition.high_watermark, partition.last_stable_offset, partition.log_start_offset
    assert (partition.error_code, watermarks) == (error, (-1, -1, -1))


def test_an_unknown_topic_id_is_a_partition_error(node: OneNode) -> None:
    """From version 13 the error has the id asked for."""
    one = wanted((0, 0))
    one.topic_id = b"\7" * 16
    answer = node.ask(k01_fetch.API, FetchRequest(topics=[one]), 13)
    assert answer.error_code == ErrorCode.NONE
    assert answer.responses[0].topic_id == b"\7" * 16
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_leader_epochs_are_checked(node: OneNode) -> None:
    """A client from before a crash is fenced; an epoch ahead of the broker's is unknown."""
    topic = node.topic("letters")
    append(topic, b"a")
    node.restart(crash=True)
    for epoch, error in (
        (-2, ErrorCode.NONE),
        (-(2**31), ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        one = wanted((0, 0))
        one.partitions[0].current_leader_epoch = epoch
        answer = node.ask(k01_fetch.API, FetchRequest(topics=[one]), 12)
        assert answer.responses[0].partitions[0].error_code == error


def test_a_fenced_client_gets_the_current_leader(node: OneNode) -> None:
    """From version 16, so that it need not refresh its metadata; other responses have none."""
    append(node.topic("letters"), b"a")
    node.restart(crash=True)
    for version, epoch, leader in ((16, 0, (node.node_id, 1)), (15, 0, None), (16, 2, None)):
        one = wanted((0, 0))
        one.topic_id = node.topics.all()[0].topic_id
        one.partitions[0].current_leader_epoch = epoch
        answer = node.ask(k01_fetch.API, FetchRequest(topics=[one]), version)
        told = answer.responses[0].partitions[0].current_leader
        assert (told and (told.leader_id, told.leader_epoch)) == leader


def test_reading_the_end_is_no_error(node: OneNode) -> None:
    """At the end of the log, and of an unwritten partition, there are no records and the watermark."""
    append(node.topic("letters", 2), b"a")
    answer = node.ask(k01_fetch.API, FetchRequest(topics=[wanted((0, 1), (1, 0))]), 12)
    assert found(answer) == {0: [], 1: []}
    assert [one.high_watermark for one in answer.responses[0].partitions] == [1, 0]


def _poll(node: OneNode, *topics: FetchTopic, min_bytes: int = 1, version: int = 12) -> OneCall:
    request = FetchRequest(topics=list(topics), max_wait_ms=500, min_bytes=min_bytes)
    return node.send(k01_fetch.API, request, version)


def test_a_fetch_of_more_partitions_than_fit_a_step_answers_all_of_them(node: OneNode) -> None:
    """Each once, in the order asked; unknown ones with an error."""
    asked = FetchTopic(
        topic="letters", partitions=[FetchPartition(partition=index) for index in range(1_200)]
    )
    request = FetchRequest(max_wait_ms=0, topics=[asked])
    answer = node.ask(k01_fetch.API, request, 4)
    (topic,) = answer.responses
    assert [partition.partition_index for partition in topic.partitions] == list(range(1_200))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {partition.error_code for partition in topic.partitions[3:]} == {unknown}


def test_a_long_poll_is_answered_by_an_append(node: OneNode) -> None:
    """Before its timeout."""
    topic = node.topic("letters", 2)
    call = _poll(node, wanted((0, 0), (1, 0)))
    node.pass_time(499)
    assert not call.is_finished
    append(topic, b"a", partition=1)
    node.pass_time()
    assert found(call.response) == {0: [], 1: [b"a"]}
    assert len(node.topics.waiters) == 0
    node.pass_time(1000)


def test_a_long_poll_ends_empty_after_its_timeout(node: OneNode) -> None:
    """Without an append the response comes after max_wait_ms, and no waiter remains."""
    node.topic("letters")
    call = _poll(node, wanted((0, 0)))
    node.pass_time(499)
    assert not call.is_finished
    node.pass_time(1)
    assert found(call.response) == {0: []}
    assert len(node.topics.waiters) == 0


def test_a_long_poll_waits_for_min_bytes_of_all_partitions(node: OneNode) -> None:
    """Bytes of all partitions count together, and too few do not wake it."""
    topic = node.topic("letters", 2)
    size = len(batch(b"a"))
    call = _poll(node, wanted((0, 0), (1, 0)), min_bytes=2 * size)
    append(topic, b"a", partition=0)
    node.pass_time()
    assert not call.is_finished
    append(topic, b"b", partition=1)
    node.pass_time()
    assert found(call.response) == {0: [b"a"], 1: [b"b"]}


def test_a_long_poll_counts_bytes_when_they_become_visible(node: OneNode) -> None:
    """Records appended during a sync count at the next one."""
    node.durability.are_held = True
    topic = node.topic("letters")
    partition = topic.partition(0)
    size = len(batch(b"a"))
    call = _poll(node, wanted((0, 0)), min_bytes=2 * size)
    partition.append(batch(b"a"), NOW)
    first = partition.log.begin_sync()
    partition.append(batch(b"b"), NOW)
    for request in (first, None):
        node.pass_time()
        assert not call.is_finished
        under_way = request or partition.log.begin_sync()
        under_way.run()
        partition.log.complete_sync(under_way)
        partition.advance()
    node.pass_time()
    assert call.is_finished, "the reader sleeps on though all that it waits for is there"
    assert found(call.response) == {0: [b"a", b"b"]}


def test_a_long_poll_waits_for_no_more_than_it_may_get(node: OneNode) -> None:
    """As in Kafka, `max_bytes` limits `min_bytes`."""
    topic = node.topic("letters")
    size = len(batch(b"a"))
    request = FetchRequest(topics=[wanted((0, 0))], max_wait_ms=500, min_bytes=2**31 - 1, max_bytes=2 * size)
    append(topic, b"a")
    call = node.send(k01_fetch.API, request, 12)
    node.pass_time()
    assert not call.is_finished
    append(topic, b"b")
    node.pass_time()
    assert found(call.response) == {0: [b"a", b"b"]}


def test_a_long_poll_of_a_lost_connection_waits_no_longer(node: OneNode) -> None:
    """Neither for records nor for its timeout, whether or not it was woken already."""
    topic = node.topic("letters")
    lost, woken = _poll(node, wanted((0, 0))), _poll(node, wanted((0, 0)))
    lost.lose()
    append(topic, b"a")
    woken.lose()
    assert len(node.topics.waiters) == 0
    node.pass_time(1000)
    assert not lost.is_finished
    assert not woken.is_finished


def test_a_long_poll_on_a_deleted_topic_is_answered(node: OneNode) -> None:
    """At once, with the error."""
    topic = node.topic("letters")
    call = _poll(node, wanted((0, 0)))
    node.topics.delete(topic, NOW)
    node.pass_time()
    assert call.response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_unsynced_records_wake_no_reader(node: OneNode) -> None:
    """In a durable topic the sync wakes readers, not the write."""
    topic = node.topic("letters")
    call = _poll(node, wanted((0, 0)))
    partition = topic.partition(0)
    partition.append(batch(b"a"), NOW)
    partition.advance()
    node.pass_time()
    assert not call.is_finished
    node.durability.when_durable(partition.log, partition.synced)
    node.pass_time()
    assert found(call.response) == {0: [b"a"]}


def test_byte_limits_hold_but_for_the_first_batch(node: OneNode) -> None:
    """Limits apply between batches; the first batch of the response is returned whatever its size."""
    topic = node.topic("letters", 3)
    for index in range(3):
        for value in (b"a", b"b", b"c"):
            append(topic, value, partition=index)
    size = len(batch(b"a"))

    def fetch(max_bytes: int, partition_max_bytes: int) -> list[int]:
        one = wanted((0, 0), (1, 0), (2, 0), max_bytes=partition_max_bytes)
        answer = node.ask(k01_fetch.API, FetchRequest(topics=[one], max_bytes=max_bytes), 12)
        return [len(records) for records in found(answer).values()]

    assert fetch(1, 1) == [1, 0, 0]
    assert fetch(1 << 20, 2 * size) == [2, 2, 2]
    assert fetch(4 * size, 1 << 20) == [3, 1, 0]
    assert fetch(4 * size + 1, 2 * size + 1) == [2, 2, 0]
    for least in (0, -1, -(2**31)):
        for limits in ((least, least), (least, 1 << 20), (1 << 20, least)):
            assert fetch(*limits) == [1, 0, 0]


def _in_session(node: OneNode, session_id: int, epoch: int, *topics: FetchTopic, **more: Any) -> Any:
    request = FetchRequest(session_id=session_id, session_epoch=epoch, topics=list(topics), **more)
    return node.ask(k01_fetch.API, request, 12)


def test_a_session_sends_only_what_changed(node: OneNode) -> None:
    """After the first response a partition is included if it has records or another watermark."""
    topic = node.topic("letters", 2)
    append(topic, b"a", partition=0)
    first = _in_session(node, 0, 0, wanted((0, 0), (1, 0)))
    assert found(first) == {0: [b"a"], 1: []}
    assert first.session_id > 0
    assert found(_in_session(node, first.session_id, 1, wanted((0, 1)))) == {}
    append(topic, b"b", partition=1)
    assert found(_in_session(node, first.session_id, 2)) == {1: [b"b"]}
    forgotten = [ForgottenTopic(topic="letters", partitions=[1])]
    assert found(_in_session(node, first.session_id, 3, forgotten_topics_data=forgotten)) == {}
    append(topic, b"c", partition=0)
    append(topic, b"c", partition=1)
    assert found(_in_session(node, first.session_id, 4)) == {0: [b"c"]}


def test_partitions_take_turns_in_full_responses(node: OneNode) -> None:
    """In a session with room for one batch per response."""
    topic = node.topic("letters", 3)
    for index in range(3):
        append(topic, b"a", partition=index)
        append(topic, b"b", partition=index)
    first = _in_session(node, 0, 0, wanted((0, 0), (1, 0), (2, 0)), max_bytes=1)
    turns = [next(index for index, got in found(first).items() if got)]
    for epoch in (1, 2, 3):
        answer = _in_session(node, first.session_id, epoch, max_bytes=1)
        turns += [index for index, got in found(answer).items() if got]
    assert turns == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [(12345, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND), (None, 7, ErrorCode.INVALID_FETCH_SESSION_EPOCH)],
)
def test_an_invalid_session_is_refused(
    node: OneNode, session_id: int | None, epoch: int, error: ErrorCode
) -> None:
    """The error is that of the whole response; the client starts again."""
    node.topic("letters")
    first = _in_session(node, 0, 0, wanted((0, 0)))
    answer = _in_session(node, first.session_id if session_id is None else session_id, epoch)
    assert (answer.error_code, answer.responses, answer.session_id) == (error, [], 0)


def test_the_size_of_a_response_is_limited(node: OneNode) -> None:
    """Four megabytes, though fifty were asked for."""
    topic = node.topic("letters")
    for number in range(6):
        append(topic, b"%d" % number * 900_000)
    request = FetchRequest(topics=[wanted((0, 0), max_bytes=50 << 20)], max_bytes=50 << 20, min_bytes=1)
    records = node.ask(k01_fetch.API, request, 12).responses[0].partitions[0].records
    assert 3_600_000 <= len(records) <= 4 << 20

"""Produce: accepted and refused batches, and the time of the response."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from tests.api_topics.node import LostCall, OneNode
from tests.log.compacting import drive
from tests.topics.disk import NOW, batch

from headgate.api import k00_produce, k01_fetch, k44_incremental_alter_configs
from headgate.api.contract import RequestSteps
from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch, iterate_records
from headgate.log.filesystem import Fault
from headgate.log.log import Log
from headgate.server.log_gauges import log_gauges
from headgate.topics.appends import Budget
from headgate.topics.configs import ResourceType
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ALL = -1


def request(
    records: bytes | None, *, partition: int = 0, topic: str = "letters", acks: int = ALL
) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def produce(node: OneNode, records: bytes | None, **parts: Any) -> Any:
    """The answer for the one partition, in the last version that names topics."""
    response = node.ask(k00_produce.API, request(records, **parts), 12)
    return response.responses[0].partition_responses[0]


def visible_values(node: OneNode, topic: str = "letters") -> list[bytes | None]:
    """What a reader finds in partition 0."""
    wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
    answer = node.ask(k01_fetch.API, FetchRequest(topics=[wanted]), 12)
    records = answer.responses[0].partitions[0].records
    return [record.value for _, record in iterate_records(records)]


def test_records_are_read_as_sent_at_consecutive_offsets(node: OneNode) -> None:
    """A batch gets the next offset, and readers find its records."""
    node.topic("letters")
    assert produce(node, batch(b"a", b"b")).base_offset == 0
    assert produce(node, batch(b"c")).base_offset == 2
    assert visible_values(node) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends(node: OneNode, version: int) -> None:
    """The response can be decoded in every version, by name or by id."""
    topic = node.topic("letters")
    wanted = request(batch(b"a"))
    wanted.topic_data[0].topic_id = topic.topic_id
    answer = node.ask(k00_produce.API, wanted, version)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert topic.partition(0).log_end_offset == 1


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_compressed_batches_are_stored_unchanged(node: OneNode, codec: int) -> None:
    """Readers get other base offsets and leader epochs only."""
    node.topic("letters")
    produce(node, batch(b"first"))
    sent = batch(b"x" * 500, b"y" * 500, codec=codec)
    produce(node, sent)
    stored = node.topics.all()[0].partition(0).read(1, 1 << 20, minimum_one=True).records
    assert stored[:8] == (1).to_bytes(8, "big")
    assert stored[8:12] + stored[16:] == sent[8:12] + sent[16:]


def _spoilt() -> bytes:
    spoilt = bytearray(batch(b"a"))
    spoilt[-1] ^= 1
    return bytes(spoilt)


def _with_magic(magic: int) -> bytes:
    spoilt = bytearray(batch(b"a"))
    spoilt[16] = magic
    return bytes(spoilt)


_CONTROL = 0x20
_TRANSACTIONAL = 0x10


def _with_attributes(attributes: int) -> bytes:
    from crc32c import crc32c

    changed = bytearray(batch(b"a", producer=(1, 0, 0)))
    changed[22] |= attributes
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


REFUSALS = [
    ("no records", None, ErrorCode.INVALID_RECORD),
    ("empty records", b"", ErrorCode.INVALID_RECORD),
    ("two batches", batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
    ("a flipped bit", _spoilt(), ErrorCode.CORRUPT_MESSAGE),
    ("a batch cut short", batch(b"a")[:-3], ErrorCode.INVALID_RECORD),
    ("a header cut short", batch(b"a")[:30], ErrorCode.INVALID_RECORD),
    ("garbage", b"\xff" * 200, ErrorCode.CORRUPT_MESSAGE),
    ("magic 0", _with_magic(0), ErrorCode.INVALID_RECORD),
    ("magic 1", _with_magic(1), ErrorCode.INVALID_RECORD),
    ("a control batch", _with_attributes(_CONTROL), ErrorCode.INVALID_RECORD),
    (
        "a transactional batch",
        _with_attributes(_TRANSACTIONAL),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ("log append time", _with_attributes(0x08), ErrorCode.INVALID_TIMESTAMP),
    ("too large", batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    ("two hours ahead", batch(b"a", timestamp=NOW + 7_200_000), ErrorCode.INVALID_TIMESTAMP),
    ("a producer id without a sequence", batch(b"a", producer=(1, 0, -1)), ErrorCode.INVALID_RECORD),
    ("a base offset", b"\0" * 7 + b"\5" + batch(b"a")[8:], ErrorCode.INVALID_RECORD),
]


@pytest.mark.parametrize(
    ("records", "error"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_invalid_batches_are_refused(node: OneNode, records: bytes | None, error: ErrorCode) -> None:
    """Each has its error code, and the partition is unchanged."""
    topic = node.topic("letters")
    answer = produce(node, records)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert topic.partition(0).log_end_offset == 0


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"topic": "nobody"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_invalid_partitions_are_refused(node: OneNode, parts: dict[str, Any], error: ErrorCode) -> None:
    """Unknown and internal ones accept nothing."""
    node.topic("letters")
    node.topic("__consumer_offsets")
    assert produce(node, batch(b"a"), **parts).error_code == error


def test_an_unknown_topic_id_has_its_own_error(node: OneNode) -> None:
    """From version 13 the id decides, whatever the name."""
    node.topic("letters")
    wanted = request(batch(b"a"))
    wanted.topic_data[0].topic_id = b"\1" * 16
    answer = node.ask(k00_produce.API, wanted, 13)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_transactional_batch_without_an_id_refuses_the_whole_request(node: OneNode) -> None:
    """As in Kafka, where such a producer is not authorized: no partition is written."""
    topic = node.topic("letters", 2)
    wanted = request(batch(b"a"))
    wanted.topic_data[0].partition_data.append(
        PartitionProduceData(index=1, records=_with_attributes(_TRANSACTIONAL))
    )
    answers = node.ask(k00_produce.API, wanted, 12).responses[0].partition_responses
    assert [one.error_code for one in answers] == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert topic.partition(0).log_end_offset == 0


def test_a_batch_is_transactional_only_by_a_complete_header(node: OneNode) -> None:
    """Its 61 bytes suffice, without a record; fewer do not, nor do those of another format."""
    node.topic("letters")
    transactional = _with_attributes(_TRANSACTIONAL)
    old = transactional[:16] + b"\1" + transactional[17:]
    refused = [produce(node, records).error_code for records in (transactional[:61], transactional[:60], old)]
    invalid = ErrorCode.INVALID_RECORD
    assert refused == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, invalid, invalid]


@pytest.mark.parametrize("size", range(1, 62))
def test_every_incomplete_batch_is_refused(node: OneNode, size: int) -> None:
    """In every version, wherever it is cut."""
    node.topic("letters")
    for version in (3, 6, 12):
        answer = node.ask(k00_produce.API, request(batch(b"a", codec=4)[:size]), version)
        assert answer.responses[0].partition_responses[0].error_code in (
            ErrorCode.INVALID_RECORD,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )


def test_zstd_needs_version_7(node: OneNode) -> None:
    """An older producer cannot send zstd (KIP-110)."""
    node.topic("letters")
    answer = node.ask(k00_produce.API, request(batch(b"a", codec=4)), 6)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    answer = node.ask(k00_produce.API, request(batch(b"a", codec=4)), 7)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_records_without_key_in_a_compacted_topic_are_listed(node: OneNode) -> None:
    """The whole batch is refused, and the response lists the records."""
    node.topic("letters", cleanup_policy="compact")
    answer = produce(node, batch(b"a", b"b", b"c", keys=[b"k", None, None]))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert produce(node, batch(b"a", b"b", keys=[b"k", b"k"])).error_code == ErrorCode.NONE


def test_old_timestamps_are_refused_by_the_topics_limit(node: OneNode) -> None:
    """The limit applies to each record."""
    node.topic("letters", message_timestamp_before_max_ms="1000")
    assert produce(node, batch(b"a", timestamp=NOW - 1001)).error_code == ErrorCode.INVALID_TIMESTAMP
    assert produce(node, batch(b"a", timestamp=NOW - 1000)).error_code == ErrorCode.NONE


def test_records_with_invalid_timestamps_are_listed(node: OneNode) -> None:
    """Too new ones as well as too old ones; the other records of the batch are not listed."""
    node.topic("letters", message_timestamp_after_max_ms="1000")
    records = [Record(b"k", b"v", NOW + ahead, ()) for ahead in (0, 1001, 1000, 2000)]
    answer = produce(node, bytes(encode_batch(records)))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 3]


def test_log_append_time_replaces_the_producers_timestamps(node: OneNode) -> None:
    """Every record has the broker's time, the response has it, and the checksum is correct."""
    node.topic("letters", message_timestamp_type="LogAppendTime")
    answer = produce(node, batch(b"a", b"b", timestamp=5))
    assert answer.log_append_time_ms == NOW
    records = node.topics.all()[0].partition(0).read(0, 1 << 20, minimum_one=True).records
    assert [record.timestamp for _, record in iterate_records(records)] == [NOW, NOW]


def test_a_repeated_batch_is_answered_with_its_first_offset(node: OneNode) -> None:
    """An idempotent producer that lost a response gets the offset, and nothing is written twice."""
    node.topic("letters")
    produce(node, batch(b"other"))
    first = batch(b"a", b"b", producer=(7, 0, 0))
    assert produce(node, first).base_offset == 1
    assert produce(node, batch(b"c", producer=(7, 0, 2))).base_offset == 3
    assert produce(node, first).base_offset == 1
    assert visible_values(node) == [b"other", b"a", b"b", b"c"]
    assert produce(node, batch(b"d", producer=(7, 0, 4))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_acks_all_waits_for_the_disk_and_so_do_readers(node: OneNode) -> None:
    """Nothing is acknowledged or visible that a crash could lose."""
    node.topic("letters")
    node.durability.are_held = True
    call = node.send(k00_produce.API, request(batch(b"a")), 12)
    assert not call.is_finished
    assert visible_values(node) == []
    node.durability.release()
    assert call.response.responses[0].partition_responses[0].base_offset == 0
    assert visible_values(node) == [b"a"]


def test_acks_one_is_answered_when_written_and_shown_when_durable(node: OneNode) -> None:
    """The producer does not wait for the sync; readers do."""
    node.topic("letters")
    node.durability.are_held = True
    assert produce(node, batch(b"a"), acks=1).base_offset == 0
    assert visible_values(node) == []
    node.durability.release()
    assert visible_values(node) == [b"a"]


def test_a_topic_on_the_page_cache_waits_for_no_sync(node: OneNode) -> None:
    """With headgate.durability=page-cache, acks=all means written, as in Kafka."""
    node.topic("letters", headgate_durability="page-cache")
    node.durability.are_held = True
    assert produce(node, batch(b"a")).base_offset == 0
    assert visible_values(node) == [b"a"]


def test_acks_zero_has_no_answer(node: OneNode) -> None:
    """The request ends without a response, and the record is appended."""
    node.topic("letters")
    call = node.send(k00_produce.API, request(batch(b"a"), acks=0), 12)
    assert call.is_finished
    assert call.response is None
    assert visible_values(node) == [b"a"]


def test_acks_zero_with_an_error_closes_the_connection(node: OneNode) -> None:
    """There is no response for the error, so the client must refresh its metadata."""
    call = node.send(k00_produce.API, request(batch(b"a"), acks=0), 12)
    assert call.response is None
    assert call.disconnect_reason == "a record for letters-0 with acks=0: UNKNOWN_TOPIC_OR_PARTITION"
    wanted = request(batch(b"a"), acks=0, topic="")
    wanted.topic_data[0].topic_id = b"\1" * 16
    call = node.send(k00_produce.API, wanted, 13)
    assert call.disconnect_reason == f"a record for {'01' * 16}-0 with acks=0: UNKNOWN_TOPIC_ID"


@pytest.mark.parametrize("acks", [ALL, 0, 1])
def test_records_of_a_lost_connection_are_synced(node: OneNode, acks: int) -> None:
    """A producer that sends its records and ends, before the log is open, leaves them to readers."""
    node.topic("letters")
    produce(node, batch(b"before"))
    node.restart()
    node.send(k00_produce.API, request(batch(b"last"), acks=acks), 12, call_type=LostCall)
    assert visible_values(node) == [b"before", b"last"]
    node.restart(crash=True)
    assert visible_values(node) == [b"before", b"last"]


def test_a_step_that_fails_leaves_no_records_unsynced(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers find the records that were appended before it."""
    topic = node.topic("letters", 2)
    node.restart()

    def fail_in_the_second(partition: Partition) -> RequestSteps[None]:
        if partition.index:
            raise RuntimeError("of this test")
        yield None

    monkeypatch.setattr(k00_produce, "opened_aside", fail_in_the_second)
    data = [PartitionProduceData(index=index, records=batch(b"a")) for index in range(2)]
    wanted = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=topic.name, partition_data=data)])
    with pytest.raises(RuntimeError):
        node.send(k00_produce.API, wanted, 12)
    assert visible_values(node) == [b"a"]


def test_a_repeated_batch_waits_for_the_first_to_be_durable(node: OneNode) -> None:
    """A duplicate is acknowledged no earlier than the first batch."""
    node.topic("letters")
    node.durability.are_held = True
    sent = request(batch(b"a", producer=(7, 0, 0)))
    first = node.send(k00_produce.API, sent, 12)
    again = node.send(k00_produce.API, sent, 12)
    assert not first.is_finished
    assert not again.is_finished
    node.durability.release()
    assert again.response.responses[0].partition_responses[0].base_offset == 0


def test_a_full_disk_is_a_retriable_error_and_recovers(node: OneNode) -> None:
    """Readers continue while writes fail; when the disk works again, so does the next append."""
    node.topic("letters")
    produce(node, batch(b"before"))
    node.disk.files.inject(Fault(errno.ENOSPC, times=None))
    for _ in range(3):
        assert produce(node, batch(b"during")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert visible_values(node) == [b"before"]
    node.disk.files.heal()
    node.pass_time(1000)
    assert produce(node, batch(b"after")).base_offset == 1
    assert visible_values(node) == [b"before", b"after"]


@pytest.mark.parametrize("operation", ["pwrite", "datasync", None])
def test_a_log_works_again_without_another_record(node: OneNode, operation: str | None) -> None:
    """The trial fails as long as the disk does, writes no record, and keeps what was acknowledged."""
    partition = node.topic("letters").partition(0)
    housekeeping = Housekeeping(node.topics)
    produce(node, batch(b"before"))
    node.disk.files.inject(Fault(errno.ENOSPC, operation, times=None))
    assert produce(node, batch(b"during")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.disk.files.inject(Fault(errno.ENOSPC, times=None))
    for _ in range(3):
        node.pass_time(1000)
        assert drive(housekeeping.try_failing()) == [False]
        assert partition.is_failing
    node.disk.files.heal()
    node.pass_time(1000)
    assert drive(housekeeping.try_failing()) == [True]
    assert not partition.is_failing
    assert not node.topics.failing
    end = partition.log.log_end_offset
    assert produce(node, batch(b"after")).base_offset == end
    assert visible_values(node)[::end] == [b"before", b"after"]


@pytest.mark.parametrize("is_produced_first", [False, True])
def test_a_log_that_cannot_be_opened_counts_as_failing(node: OneNode, is_produced_first: bool) -> None:
    """From the first request that needs it, and until it can be opened and written again: it is tried without
    another request, as clients may wait until the server is ready.
    """
    node.topic("letters")
    produce(node, batch(b"before"))
    node.restart()
    topic = node.topics.by_name("letters")
    assert topic is not None
    node.disk.files.inject(Fault(errno.EACCES, "pread", times=None))
    assert not any(partition.is_failing for partition in topic.used_partitions())
    if is_produced_first:
        assert produce(node, batch(b"during")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert visible_values(node) == []
    assert [partition.is_failing for partition in topic.used_partitions()] == [True]
    assert _value_of(log_gauges(node.topics.all(), set(), 10), "headgate_logs_failing") == 1
    housekeeping = Housekeeping(node.topics)
    assert drive(housekeeping.try_failing()) == [False]
    node.disk.files.heal()
    for _ in range(2):  # the first round leaves closed logs alone; a later one opens and closes them
        drive(housekeeping.round(node.system_time()))
    assert drive(housekeeping.try_failing()) == [True]
    assert _value_of(log_gauges(node.topics.all(), set(), 10), "headgate_logs_failing") == 0
    assert not node.topics.failing
    assert visible_values(node) == [b"before"]


@pytest.mark.interpreted
def test_a_log_whose_recovery_takes_long_is_tried_seldom(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery blocks all other requests while it reads the log."""
    topic, clock, tries = node.topic("letters"), [100.0], []
    topic.shared.seconds = lambda: clock[0]
    produce(node, batch(b"before"))
    topic.partition(0).log.fail(OSError(errno.EIO, "a sync failed"))

    def slow(log: Log) -> None:
        tries.append(clock[0])
        clock[0] += 3
        raise OSError(errno.EIO, "still failing")

    monkeypatch.setattr(Log, "recover", slow)
    for clock[0] in (200.0, 204.0, 232.0, 234.0):
        assert produce(node, batch(b"during")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert drive(Housekeeping(node.topics).try_failing()) == [False]
    assert tries == [200.0, 234.0]


@pytest.mark.parametrize("operation", ["a fetch", "a search"])
def test_a_log_that_could_not_be_read_is_read_again(node: OneNode, operation: str) -> None:
    """An error of the disk that passes does not count for ever, if nobody reads the log any more."""
    partition = node.topic("letters").partition(0)
    produce(node, batch(b"before"))
    housekeeping = Housekeeping(node.topics)
    node.disk.files.inject(Fault(errno.EIO, "pread", times=None))
    if operation == "a fetch":
        assert visible_values(node) == []
    else:
        assert drive(partition.find_offset(NOW)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.is_failing
    assert drive(housekeeping.try_failing()) == [False]
    node.disk.files.heal()
    assert drive(housekeeping.try_failing()) == [True]
    assert not partition.is_failing


def test_a_log_that_failed_without_a_request_is_tried_again(node: OneNode) -> None:
    """Such as in a compaction, or when the files of an idle log were closed."""
    topic = node.topic("letters")
    produce(node, batch(b"before"))
    topic.partition(0).log.fail(OSError(errno.EIO, "a compaction failed"))
    assert _value_of(log_gauges(node.topics.all(), set(), 10), "headgate_logs_failing") == 1
    assert drive(Housekeeping(node.topics).try_failing()) == [True]
    assert _value_of(log_gauges(node.topics.all(), set(), 10), "headgate_logs_failing") == 0
    assert visible_values(node) == [b"before"]


def _value_of(gauges: Iterable[Metric | None], name: str) -> float:
    (family,) = [family for family in gauges if family is not None and family.name == name]
    return float(family.samples[0].value)


def test_all_logs_work_again_at_once_when_the_disk_does(node: OneNode) -> None:
    """A server with ten thousand failing logs is not ready before all were tried; one is tried until it
    fails.
    """
    topic = node.topic("letters", 100)
    housekeeping = Housekeeping(node.topics)
    node.disk.files.inject(Fault(errno.ENOSPC, times=None))
    for index in range(100):
        refused = topic.partition(index).append(batch(b"during"), node.system_time())
        assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR
    node.pass_time(1000)
    tried = drive(housekeeping.try_failing())
    assert set(tried) == {False}
    assert len(tried) < 100
    node.disk.files.heal()
    node.pass_time(1000)
    assert drive(housekeeping.try_failing()) == [True] * 100
    assert not node.topics.failing


def test_a_log_whose_try_fails_unexpectedly_is_tried_again(node: OneNode) -> None:
    """It would count as failing for ever."""
    partition = node.topic("letters").partition(0)
    housekeeping = Housekeeping(node.topics)
    produce(node, batch(b"before"))
    node.disk.files.inject(Fault(errno.ENOSPC, "pwrite"))
    assert produce(node, batch(b"during")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    shared = partition.topic.shared
    seconds, shared.seconds = shared.seconds, lambda: 1 // 0
    partition.log.fail(OSError(errno.EIO, "a sync failed"))
    with pytest.raises(ZeroDivisionError):
        drive(housekeeping.try_failing())
    shared.seconds = seconds
    node.pass_time(1000)
    assert drive(housekeeping.try_failing()) == [True]
    assert not partition.is_failing


def test_a_failed_write_affects_its_partition_only(node: OneNode) -> None:
    """The other partition of the request is appended."""
    node.topic("letters", 2)
    wanted = request(batch(b"a"))
    wanted.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch(b"b")))
    node.disk.files.inject(Fault(errno.EIO, "pwrite"))
    answers = node.ask(k00_produce.API, wanted, 12).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]


def test_a_topic_deleted_before_its_sync_affects_no_other(node: OneNode) -> None:
    """The producer is answered, the other topic's records become durable, and the deleted topic's files are
    removed.
    """
    gone = node.topic("letters")
    node.topic("other")
    node.durability.are_held = True
    calls = [
        node.send(k00_produce.API, request(batch(b"a"), topic=name), 12) for name in ("letters", "other")
    ]
    assert node.topics.delete(gone, NOW) is None
    node.durability.release()
    answers = [call.response.responses[0].partition_responses[0] for call in calls]
    assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert visible_values(node, "other") == [b"a"]
    assert "letters-0" not in node.disk.files.listdir(node.topics.data_dir)


@pytest.mark.parametrize("acks", [ALL, 1])
def test_a_topic_deleted_between_two_steps_affects_no_other(
    node: OneNode, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    """The other topic's records become durable and visible, and each partition is answered."""
    node.topic("letters")
    node.topic("other")
    produce(node, batch(b"before"), topic="other")
    node.restart()

    def delete_before_the_second(partition: Partition) -> RequestSteps[None]:
        if partition.topic.name == "other":
            gone = node.topics.by_name("letters")
            assert gone is not None
            assert node.topics.delete(gone, NOW) is None
        yield None

    monkeypatch.setattr(k00_produce, "opened_aside", delete_before_the_second)
    wanted = request(batch(b"a"), acks=acks)
    wanted.topic_data += request(batch(b"a"), topic="other").topic_data
    entries = node.ask(k00_produce.API, wanted, 12).responses
    deleted, other = (entry.partition_responses[0] for entry in entries)
    answer_of_deleted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if acks == ALL else ErrorCode.NONE
    assert (deleted.error_code, other.error_code) == (answer_of_deleted, ErrorCode.NONE)
    monkeypatch.undo()
    assert visible_values(node, "other") == [b"before", b"a"]


def test_a_failed_sync_is_a_retriable_error_and_recovers(node: OneNode) -> None:
    """Records that are not durable are not acknowledged; a retry is appended once."""
    node.topic("letters")
    produce(node, batch(b"before"))
    sent = batch(b"during", producer=(7, 0, 0))
    node.disk.files.inject(Fault(errno.EIO, "datasync"))
    refused = produce(node, sent)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert refused.error_message == "The records could not be made durable"
    assert produce(node, sent).error_code == ErrorCode.NONE
    assert visible_values(node) == [b"before", b"during"]
    node.restart(crash=True)
    assert visible_values(node) == [b"before", b"during"]


MANY = 9000
"""More records than are checked on the loop."""


def _many(name: bytes, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    return batch(*[name] * MANY, producer=producer)


@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("acks", [ALL, 0, 1])
def test_batches_wait_for_an_earlier_check_in_another_thread(
    node: OneNode, acks: int, is_ahead: bool
) -> None:
    """They are appended in the order of arrival, whoever sent them; other partitions do not wait.

    The thread may have checked all of them before the loop hears of the first one.
    """
    topic = node.topic("letters", 2)
    node.aside.is_held, node.aside.is_ahead = True, is_ahead
    calls = [
        node.send(k00_produce.API, request(records, acks=acks), 12)
        for records in (_many(b"large"), batch(b"small"), b"bad", _many(b"large too"), batch(b"last"))
    ]
    assert not any(call.is_finished for call in calls)
    assert topic.partition(0).log_end_offset == 0
    other = produce(node, batch(b"elsewhere"), partition=1)
    assert other.base_offset == 0
    node.aside.release()
    assert all(call.is_finished for call in calls)
    assert [value for value in visible_values(node) if value != b"large"] == [
        b"small",
        *[b"large too"] * MANY,
        b"last",
    ]
    if acks:
        answers = [call.response.responses[0].partition_responses[0] for call in calls]
        assert [one.base_offset for one in answers] == [0, MANY, -1, MANY + 1, 2 * MANY + 1]
    else:
        assert [call.disconnect_reason is None for call in calls] == [True, True, False, True, True]
    node.aside.is_held = False
    assert produce(node, batch(b"afterwards")).base_offset == 2 * MANY + 2
    assert node.aside.count == 5


def test_an_answer_that_cannot_be_given_leaves_nothing_behind(node: OneNode) -> None:
    """The next batch of the partition does not wait for it."""
    partition = node.topic("letters").partition(0)
    node.aside.is_held = True

    def fail(_: object, result: object) -> None:
        raise ValueError(f"nobody takes {result}")

    node.appends.append(partition, _many(b"a"), node.system_time(), Budget(), fail)
    failed: list[str] = []
    node.appends.on_failed = lambda what, problem: failed.append(f"{what}: {problem!r}"[:70])
    node.aside.release()
    assert len(failed) == 1 and "the answer for a batch of letters-0 failed: ValueError" in failed[0]
    node.aside.is_held = False
    count = node.aside.count
    assert produce(node, batch(b"b")).base_offset == MANY
    assert node.aside.count == count


def test_sequences_are_checked_in_order_whatever_the_checks_take(node: OneNode) -> None:
    """Several batches of a producer in flight are not out of order."""
    node.topic("letters")
    node.aside.is_held = True
    first = node.send(k00_produce.API, request(_many(b"a", (5, 0, 0))), 12)
    second = node.send(k00_produce.API, request(batch(b"b", producer=(5, 0, MANY))), 12)
    node.aside.release()
    answers = [call.response.responses[0].partition_responses[0] for call in (first, second)]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, MANY)]


def test_a_topic_deleted_during_the_check_refuses_the_batch(node: OneNode) -> None:
    """And the batches after it."""
    topic = node.topic("letters")
    node.aside.is_held = True
    call = node.send(k00_produce.API, request(_many(b"a")), 12)
    assert node.topics.delete(topic, node.system_time()) is None
    node.aside.release()
    answer = call.response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not topic.written_partitions()


def test_a_request_has_a_bounded_share_of_the_loop(node: OneNode) -> None:
    """The rest is checked in another thread, however many partitions it has."""
    partitions = 180
    topic = node.topic("letters", partitions)
    wanted = request(batch(b"a"))
    wanted.topic_data[0].partition_data = [
        PartitionProduceData(index=index, records=batch(*[b"a"] * 100)) for index in range(partitions)
    ]
    answers = node.ask(k00_produce.API, wanted, 12).responses[0].partition_responses
    assert [one.error_code for one in answers] == [0] * partitions
    assert 0 < node.aside.count < partitions
    assert all(topic.partition(index).log_end_offset == 100 for index in range(partitions))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_large_decompressed_batch_is_checked_in_another_thread(node: OneNode, codec: int) -> None:
    """A small batch that decompresses to many bytes is accepted without blocking the loop."""
    node.topic("letters")
    assert produce(node, batch(b"\0" * 5_000_000, codec=codec)).base_offset == 0
    assert node.aside.count == 1
    assert produce(node, batch(b"\0" * 50_000, codec=codec)).base_offset == 1
    assert node.aside.count == 1


def test_a_refusal_for_the_contents_has_the_log_start_offset(node: OneNode) -> None:
    """As in Kafka: one for damage or size has not."""
    topic = node.topic("letters", max_message_bytes="500")
    for _ in range(3):
        produce(node, batch(b"a"))
    topic.partition(0).delete_records(2)
    future = batch(b"a", timestamp=NOW + 7_200_000)
    unsequenced = batch(b"a", producer=(1, 0, -1))
    for records in (future, unsequenced, batch(b"b", producer=(1, 0, 5)), batch(b"c", producer=(1, 0, 7))):
        assert produce(node, records).log_start_offset == 2
    for records in (_spoilt(), batch(b"x" * 1000), batch(b"a") * 2, b""):
        assert produce(node, records).log_start_offset == -1


def _unsynced(topic: Topic, partition: int = 0) -> int:
    log = topic.partition(partition).log
    return log.log_end_offset - log.durable_offset


def test_flush_messages_syncs_a_page_cache_topic(node: OneNode) -> None:
    """The response to the last record of that number waits for the sync."""
    topic = node.topic("letters", headgate_durability="page-cache", flush_messages="5")
    for expected in (2, 4, 0, 2):
        assert produce(node, batch(b"a", b"b")).error_code == ErrorCode.NONE
        assert _unsynced(topic) == expected
    node.durability.are_held = True
    assert produce(node, batch(b"a", b"b")).error_code == ErrorCode.NONE
    waiting = node.send(k00_produce.API, request(batch(b"full")), 12)
    assert not waiting.is_finished
    node.durability.release()
    assert waiting.is_finished


@pytest.mark.parametrize("acks", [ALL, 0, 1])
def test_flush_ms_syncs_a_page_cache_topic(node: OneNode, acks: int) -> None:
    """Counted from the first unsynced record; no response waits for it."""
    topic = node.topic("letters", headgate_durability="page-cache", flush_ms="1000")
    for _ in range(2):
        for _ in range(3):
            node.send(k00_produce.API, request(batch(b"a"), acks=acks), 12)
            node.pass_time(333)
        assert _unsynced(topic) == 3
        node.pass_time(1)
        assert _unsynced(topic) == 0
        node.pass_time(5000)


@pytest.mark.parametrize("is_produced_after", [False, True])
@pytest.mark.parametrize(
    ("setting", "due_ms"),
    [({"flush.ms": "1000"}, 1000), ({"flush.ms": "0"}, 0), ({"flush.messages": "1"}, 0)],
)
def test_a_lower_limit_of_unsynced_records_applies_at_once(
    node: OneNode, setting: dict[str, str], due_ms: int, is_produced_after: bool
) -> None:
    """Also to records that were produced before it, under a limit of half a day."""
    topic = node.topic("letters", headgate_durability="page-cache", flush_ms="43200000")
    produce(node, batch(b"a"))
    configs = [AlterableConfig(name=name, value=value) for name, value in setting.items()]
    resource = AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name="letters", configs=configs
    )
    node.ask(k44_incremental_alter_configs.API, IncrementalAlterConfigsRequest(resources=[resource]))
    if is_produced_after:
        produce(node, batch(b"b"))
    if due_ms:
        node.pass_time(due_ms - 1)
        assert _unsynced(topic) == 1 + is_produced_after
        node.pass_time(1)
    assert _unsynced(topic) == 0


def test_a_planned_sync_of_a_deleted_topic_does_nothing(node: OneNode) -> None:
    """It fails nothing."""
    topic = node.topic("letters", headgate_durability="page-cache", flush_ms="1000")
    produce(node, batch(b"a"))
    assert node.topics.delete(topic, NOW) is None
    node.pass_time(5000)


def test_a_flush_ms_of_zero_syncs_each_append(node: OneNode) -> None:
    """`flush.ms` of 0."""
    topic = node.topic("letters", headgate_durability="page-cache", flush_ms="0")
    produce(node, batch(b"a"))
    assert _unsynced(topic) == 0


@pytest.mark.parametrize("replicas", ["1", "2", "2147483647"])
def test_min_insync_replicas_is_capped(node: OneNode, replicas: str) -> None:
    """As in Kafka, `min.insync.replicas` requires no more replicas than the topic has."""
    node.topic("letters", min_insync_replicas=replicas)
    for acks in (ALL, 1):
        assert produce(node, batch(b"a"), acks=acks).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [12, 13])
def test_of_a_partition_given_twice_the_last_batch_counts(node: OneNode, version: int) -> None:
    """In one entry of the topic or in two; it is answered once, and other partitions are not affected."""
    topic = node.topic("letters", 2)
    other = node.topic("numbers")

    def entry(topic: Topic, *batches: tuple[int, bytes]) -> TopicProduceData:
        data = [PartitionProduceData(index=index, records=batch(value)) for index, value in batches]
        return TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=data)

    wanted = ProduceRequest(
        acks=ALL,
        topic_data=[
            entry(topic, (0, b"first"), (1, b"kept"), (0, b"second")),
            entry(other, (0, b"kept")),
            entry(topic, (0, b"last")),
        ],
    )
    answer = node.ask(k00_produce.API, wanted, version)
    told = [one.index for entry in answer.responses for one in entry.partition_responses]
    assert sorted(told) == [0, 0, 1]
    assert visible_values(node) == [b"last"]
    assert (topic.partition(1).log_end_offset, other.partition(0).log_end_offset) == (1, 1)

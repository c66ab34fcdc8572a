"""Transactions of one partition: what is accepted, the last stable offset, what committed readers see."""

from __future__ import annotations

from time import process_time

import pytest
from tests.topics.disk import NOW, Disk, append, batch, create, sync
from tests.topics.transactions import VERIFIED, Writer, committed, transactional

from headgate.domain.errors import ErrorCode
from headgate.log.batch import BatchHeader, read_header
from headgate.log.markers import EndMarker, encode_marker
from headgate.topics.topic import Topic
from headgate.topics.transactions import OpenTransaction, Transactions, Verification


@pytest.fixture
def topic(disk: Disk) -> Topic:
    return create(disk.start(), disk, "flights")


def test_a_transaction_counts_when_it_is_committed(topic: Topic) -> None:
    """Its records are hidden from committed readers until the marker is durable, and the marker from all."""
    writer = Writer(topic, 7)
    append(topic, b"before")
    assert writer.write(b"a", b"b") == 1
    append(topic, b"after")
    partition = topic.partition(0)
    assert (partition.high_watermark, partition.last_stable_offset) == (4, 1)
    assert partition.open_transaction_of(7) == OpenTransaction(7, 0, 1, NOW)
    assert committed(topic) == [b"before"]
    assert writer.end(is_committed=True, is_durable=False) == 4
    assert partition.open_transaction_of(7) is None
    assert partition.last_stable_offset == 1, "the marker is not durable"
    sync(topic)
    assert partition.last_stable_offset == 5
    assert committed(topic) == [b"before", b"a", b"b", b"after"]


def test_an_aborted_transaction_is_listed(topic: Topic) -> None:
    """With its producer and first offset, for reads of its records; and not for other reads."""
    writer, other = Writer(topic, 7), Writer(topic, 8)
    writer.write(b"a")
    other.write(b"x")
    writer.end(is_committed=False)
    other.end(is_committed=True)
    append(topic, b"after")
    partition = topic.partition(0)
    result = partition.read(0, 1 << 20, minimum_one=True, is_committed=True)
    assert (list(result.aborted), result.last_stable_offset) == ([(7, 0)], 5)
    assert committed(topic) == [b"x", b"after"]
    assert not partition.read(0, 1 << 20, minimum_one=True).aborted
    assert not partition.read(3, 1 << 20, minimum_one=True, is_committed=True).aborted


NOT_VERIFIED = Verification.NONE
VERSION_2 = Verification.VERIFIED_VERSION_2
BATCHES = [
    ("not verified", transactional(7, b"a"), NOT_VERIFIED, ErrorCode.INVALID_TXN_STATE),
    ("verified", transactional(7, b"a"), VERIFIED, ErrorCode.NONE),
    (
        "without a producer",
        transactional(-1, b"a", epoch=-1, sequence=-1),
        VERIFIED,
        ErrorCode.INVALID_RECORD,
    ),
    ("any first sequence", transactional(7, b"a", sequence=4), VERIFIED, ErrorCode.NONE),
    (
        "version 2 begins at 0",
        transactional(7, b"a", sequence=4),
        VERSION_2,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ),
    ("open", transactional(1, b"a", epoch=2, sequence=1), NOT_VERIFIED, ErrorCode.NONE),
    ("repeated", transactional(1, b"first", epoch=2), NOT_VERIFIED, ErrorCode.NONE),
    (
        "open, a gap",
        transactional(1, b"a", epoch=2, sequence=2),
        NOT_VERIFIED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ),
    (
        "open, a newer epoch",
        transactional(1, b"a", epoch=3),
        NOT_VERIFIED,
        ErrorCode.INVALID_TXN_STATE,
    ),
    (
        "open, an older epoch",
        transactional(1, b"a", epoch=1, sequence=1),
        VERIFIED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    (
        "open, not of it",
        batch(b"a", producer=(1, 2, 1)),
        VERIFIED,
        ErrorCode.INVALID_TXN_STATE,
    ),
]


@pytest.mark.parametrize(
    ("data", "verification", "error"), [row[1:] for row in BATCHES], ids=[row[0] for row in BATCHES]
)
def test_which_batches_are_accepted(
    topic: Topic, data: bytes, verification: Verification, error: ErrorCode
) -> None:
    """Producer 1 has a transaction open at epoch 2, with one record; no other producer is known."""
    Writer(topic, 1, epoch=2).write(b"first")
    result = topic.partition(0).append(data, NOW, verification)
    assert result.error == error
    assert topic.partition(0).log_end_offset == (1 if result.base_offset <= 0 else 2)


MARKERS = [
    ("the epoch of its batches", {"epoch": 2}, ErrorCode.NONE),
    ("an older epoch", {"epoch": 1}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ("a newer epoch", {"epoch": 3}, ErrorCode.NONE),
    ("version 2, the same epoch", {"epoch": 2, "version": 2}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ("version 2, the next epoch", {"epoch": 3, "version": 2}, ErrorCode.NONE),
]


@pytest.mark.parametrize(("fields", "error"), [row[1:] for row in MARKERS], ids=[row[0] for row in MARKERS])
def test_which_markers_are_accepted(topic: Topic, fields: dict[str, int], error: ErrorCode) -> None:
    """For a transaction that is open at epoch 2."""
    writer = Writer(topic, 1, epoch=2)
    writer.write(b"a")
    assert writer.try_end(is_committed=True, **fields).error == error
    sync(topic)
    assert topic.partition(0).last_stable_offset == (2 if error == ErrorCode.NONE else 0)


def test_a_marker_may_be_repeated(topic: Topic) -> None:
    """In both protocols, and also for a producer that wrote nothing; it changes no transaction."""
    writer = Writer(topic, 1, epoch=2)
    assert writer.end(is_committed=False) == 0
    writer.write(b"a")
    for at, version in enumerate((0, 2, 2)):
        assert writer.end(is_committed=True, epoch=3, version=version) == 2 + at
    assert committed(topic) == [b"a"]
    assert topic.partition(0).last_stable_offset == 5
    assert not topic.partition(0).log.segments.has_aborted


def test_an_older_coordinator_is_fenced(topic: Topic) -> None:
    """A marker of an older coordinator epoch than the last one of this producer is refused."""
    writer = Writer(topic, 1)
    writer.end(is_committed=True, coordinator_epoch=5)
    writer.write(b"a")
    refused = writer.try_end(is_committed=True, coordinator_epoch=4)
    assert refused.error == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert Writer(topic, 2).end(is_committed=True, coordinator_epoch=4) == 2


def test_a_marker_with_a_newer_epoch_fences_the_older_ones(topic: Topic) -> None:
    """The next transaction begins at that epoch and sequence 0 (KIP-890)."""
    zombie = Writer(topic, 1)
    zombie.write(b"a")
    zombie.end(is_committed=True, epoch=1, version=2)
    late = topic.partition(0).append(transactional(1, b"late", sequence=1), NOW, VERIFIED)
    assert late.error == ErrorCode.INVALID_PRODUCER_EPOCH
    gap = topic.partition(0).append(transactional(1, b"gap", epoch=1, sequence=1), NOW, VERIFIED)
    assert gap.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    successor = Writer(topic, 1, epoch=1)
    successor.write(b"b")
    successor.end(is_committed=True, epoch=2, version=2)
    assert committed(topic) == [b"a", b"b"]


def test_a_marker_ends_what_was_verified_before_it(topic: Topic) -> None:
    """A batch whose check took long comes after the marker: it would open a transaction that nobody ends."""
    partition = topic.partition(0)
    writer = Writer(topic, 7)
    writer.write(b"a")
    asked_at = partition.log_end_offset
    writer.end(is_committed=False)
    late = transactional(7, b"b", sequence=1)
    result = partition.append(late, NOW, VERIFIED, asked_at)
    assert result.error is ErrorCode.INVALID_TXN_STATE
    assert partition.open_transaction_of(7) is None
    assert partition.append(late, NOW, VERIFIED, partition.log_end_offset).error is ErrorCode.NONE
    assert partition.append(transactional(7, b"c", sequence=2), NOW, VERIFIED, asked_at).error is (
        ErrorCode.NONE
    ), "the transaction was opened again"


def test_a_marker_of_another_producer_ends_nothing(topic: Topic) -> None:
    """Nor does the marker of the transaction before, whose epoch may be lower."""
    partition = topic.partition(0)
    Writer(topic, 8).write(b"x")
    assert partition.append(transactional(7, b"a"), NOW, VERIFIED, 0).error is ErrorCode.NONE
    Writer(topic, 8).end(is_committed=True)
    assert partition.append(transactional(9, b"b"), NOW, VERIFIED, 0).error is ErrorCode.NONE
    Writer(topic, 7).end(is_committed=True, epoch=1)
    later = transactional(7, b"c", epoch=1)
    assert partition.append(later, NOW, VERSION_2, 0).error is ErrorCode.NONE


def test_the_oldest_transaction_holds_the_last_stable_offset(topic: Topic) -> None:
    """Whatever ends after it, in any order."""
    writers = [Writer(topic, number) for number in range(4)]
    for writer in writers:
        writer.write(b"%d" % writer.producer_id)
    offsets = []
    for number in (2, 0, 3, 1):
        writers[number].end(is_committed=number != 3)
        offsets.append(topic.partition(0).last_stable_offset)
    assert offsets == [0, 1, 1, 8]
    assert committed(topic) == [b"0", b"1", b"2"]


def test_markers_that_are_not_durable_hold_it_too(topic: Topic) -> None:
    """A crash could still take the decision away."""
    first, second = Writer(topic, 1), Writer(topic, 2)
    first.write(b"a")
    second.write(b"b")
    second.end(is_committed=True)
    first.end(is_committed=True, is_durable=False)
    assert topic.partition(0).last_stable_offset == 0
    second.write(b"c", is_durable=False)
    sync(topic)
    assert topic.partition(0).last_stable_offset == 4


def test_the_cost_of_the_last_stable_offset_does_not_grow_with_open_transactions() -> None:
    """Ten thousand are open, and as many have ended and are not durable; each lookup takes microseconds."""
    transactions = Transactions()
    count = 10_000
    for number in range(count):
        transactions.take(placed(transactional(number, b"v"), number), b"")
    began = process_time()
    for number in range(count):
        assert transactions.last_stable_offset(count) == number
        marker = encode_marker(EndMarker(True, 0), number, 0, NOW)
        transactions.take(placed(marker, count + number), marker)
        assert transactions.last_stable_offset(count) == number, "the marker is not durable"
        end = count + number + 1
        assert transactions.last_stable_offset(end) == (number + 1 if number + 1 < count else end)
    assert process_time() - began < 2.0
    assert not len(transactions)


def placed(data: bytes | bytearray, offset: int) -> BatchHeader:
    """Return the header of a batch at an offset."""
    return read_header(data)._replace(base_offset=offset)

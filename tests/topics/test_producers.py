"""Sequence checks of idempotent producers, against a table and against a model."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.topics import producers as producers_module
from headgate.topics.producers import (
    MOST_PRODUCERS,
    ProducerCount,
    Producers,
    RememberedBatch,
    sequence_after,
)
from headgate.topics.snapshot import IndexedSegment, Snapshot
from headgate.topics.transactions import OpenTransaction

MAXIMUM = (1 << 31) - 1


@dataclass(frozen=True)
class Sent:
    """A batch with the fields of the sequence checks."""

    producer_epoch: int
    base_sequence: int
    record_count: int = 1
    producer_id: int = 7
    base_offset: int = 0
    max_timestamp: int = 0

    @property
    def last_offset_delta(self) -> int:
        return self.record_count - 1


def bytes_of(producers: Producers) -> bytes:
    """Return the producers as in a snapshot."""
    return b"".join(one.to_bytes() for one in producers.copied())


def send(producers: Producers, batch: Sent, offset: int) -> ErrorCode | int:
    """Check a batch and remember it if it is accepted; a repeated one gives its first offset."""
    verdict = producers.check(batch)
    if isinstance(verdict, RememberedBatch):
        return verdict.first_offset
    if verdict == ErrorCode.NONE:
        placed = Sent(
            batch.producer_epoch,
            batch.base_sequence,
            batch.record_count,
            batch.producer_id,
            base_offset=offset,
        )
        producers.remember(placed)
    return verdict


OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

HISTORIES = [
    ("a new producer starts at 0", [(0, 0, 1)], ErrorCode.NONE),
    ("a new producer starts anywhere", [(3, 1000, 1)], ErrorCode.NONE),
    ("the next sequence", [(0, 0, 3), (0, 3, 1)], ErrorCode.NONE),
    ("a gap", [(0, 0, 3), (0, 4, 1)], OUT_OF_ORDER),
    ("an overlap", [(0, 0, 3), (0, 2, 1)], OUT_OF_ORDER),
    ("the last batch again", [(0, 0, 3), (0, 0, 3)], 0),
    ("the last batch again, but shorter", [(0, 0, 3), (0, 0, 2)], OUT_OF_ORDER),
    ("the fifth last batch again", [*[(0, n, 1) for n in range(5)], (0, 0, 1)], 0),
    ("the sixth last batch again", [*[(0, n, 1) for n in range(6)], (0, 0, 1)], OUT_OF_ORDER),
    ("2^31-1 is followed by 0", [(0, MAXIMUM, 1), (0, 0, 1)], ErrorCode.NONE),
    ("a batch across the wrap", [(0, MAXIMUM - 1, 4), (0, 2, 1)], ErrorCode.NONE),
    ("a batch across the wrap again", [(0, MAXIMUM - 1, 4), (0, MAXIMUM - 1, 4)], 0),
    ("an older epoch", [(1, 0, 1), (0, 1, 1)], ErrorCode.INVALID_PRODUCER_EPOCH),
    ("a newer epoch starts at 0", [(0, 0, 1), (1, 0, 1)], ErrorCode.NONE),
    ("a newer epoch starts nowhere else", [(0, 0, 1), (1, 1, 1)], OUT_OF_ORDER),
    ("a batch of the older epoch again", [(0, 0, 1), (1, 0, 1), (0, 0, 1)], ErrorCode.INVALID_PRODUCER_EPOCH),
]


@pytest.mark.parametrize(
    ("history", "answer"), [row[1:] for row in HISTORIES], ids=[row[0] for row in HISTORIES]
)
def test_the_last_batch_of_a_history(history: list[tuple[int, int, int]], answer: ErrorCode | int) -> None:
    """Each batch is (epoch, first sequence, records); all but the last are accepted."""
    producers = Producers()
    *before, last = history
    for offset, (epoch, sequence, count) in enumerate(before):
        assert send(producers, Sent(epoch, sequence, count), offset) == ErrorCode.NONE
    verdict = send(producers, Sent(*last), 99)
    assert verdict == answer
    assert isinstance(verdict, ErrorCode) == isinstance(answer, ErrorCode)


def test_producers_are_independent() -> None:
    """Each id has its own sequences."""
    producers = Producers()
    assert send(producers, Sent(0, 0, producer_id=1), 0) == ErrorCode.NONE
    assert send(producers, Sent(0, 50, producer_id=2), 1) == ErrorCode.NONE
    assert send(producers, Sent(0, 1, producer_id=1), 2) == ErrorCode.NONE


def test_an_idle_producer_expires() -> None:
    """Then it may start at any sequence; a more recent one is kept."""
    producers = Producers()
    producers.remember(Sent(0, 0, producer_id=1, max_timestamp=100))
    producers.remember(Sent(0, 0, producer_id=2, max_timestamp=200))
    assert producers.expire(Millis(200)) == 1
    assert producers.check(Sent(0, 5, producer_id=1)) == ErrorCode.NONE
    assert producers.check(Sent(0, 5, producer_id=2)) == OUT_OF_ORDER


@dataclass
class Model:
    """The rules in simple form: every accepted batch of the current epoch, by number."""

    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)

    def send(self, epoch: int, sequence: int, count: int, offset: int) -> ErrorCode | int:
        if epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.batches and epoch == self.epoch:
            for known, size, first_offset in self.batches[-5:]:
                if (known, size) == (sequence, count):
                    return first_offset
            last, size, _ = self.batches[-1]
            if sequence != (last + size) % (1 << 31):
                return OUT_OF_ORDER
        elif self.batches and sequence != 0:
            return OUT_OF_ORDER
        if epoch > self.epoch:
            self.batches.clear()
        self.epoch = epoch
        self.batches.append((sequence, count, offset))
        return ErrorCode.NONE


sequences = st.one_of(st.integers(0, 12), st.integers(MAXIMUM - 6, MAXIMUM))


@given(st.lists(st.tuples(st.integers(0, 2), sequences, st.integers(1, 3), st.booleans()), max_size=40))
def test_any_history_agrees_with_the_model(steps: list[tuple[int, int, int, bool]]) -> None:
    """Also with the table written to a snapshot and read again at any point."""
    producers, model = Producers(), Model()
    for offset, (epoch, sequence, count, is_restart) in enumerate(steps):
        if is_restart:
            restored = Producers.from_bytes(bytes_of(producers))
            assert restored is not None
            producers = restored
        answer = send(producers, Sent(epoch, sequence, count), offset)
        assert answer == model.send(epoch, sequence, count, offset)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_snapshot_is_ignored(at: int, flip: int) -> None:
    """Every changed byte and every missing tail is detected."""
    producers = Producers()
    for sequence in range(8):
        producers.remember(Sent(0, sequence))
    snapshot = Snapshot(
        8, 1234, [OpenTransaction(7, 0, 3, Millis(5))], {0: IndexedSegment(2, 99)}, bytes_of(producers)
    )
    data = bytearray(snapshot.encode())
    assert Snapshot.decode(bytes(data)) == snapshot
    assert Snapshot.decode(bytes(data[: at % len(data)])) is None
    data[at % len(data)] ^= flip
    assert Snapshot.decode(bytes(data)) is None


def test_sequences_wrap_to_zero() -> None:
    """There is no negative sequence."""
    assert sequence_after(MAXIMUM, 1) == 0
    assert sequence_after(MAXIMUM - 1, 3) == 1


def test_a_new_id_for_each_batch_takes_bounded_memory() -> None:
    """The least recent producer is removed, also after a restart; an active one is kept."""
    producers = Producers()
    for number in range(MOST_PRODUCERS - 1):
        producers.remember(Sent(0, 0, producer_id=number))
    producers.remember(Sent(0, 1, producer_id=0))
    restored = Producers.from_bytes(bytes_of(producers))
    assert restored is not None
    for number in range(3):
        restored.remember(Sent(0, 0, producer_id=MOST_PRODUCERS + number))
    assert len(restored) == MOST_PRODUCERS
    known = dict(restored.items())
    assert [number in known for number in (0, 1, 2, 3)] == [True, False, False, True]


def test_a_producer_with_an_open_transaction_is_never_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for its age nor for room; if all have one, more are kept than otherwise."""
    monkeypatch.setattr(producers_module, "MOST_PRODUCERS", 50)
    in_transaction = set(range(40))
    producers = Producers(in_transaction=in_transaction)
    for number in range(200):
        producers.remember(Sent(0, 0, producer_id=number))
    known = dict(producers.items()).keys()
    assert in_transaction <= known and len(known) == 50
    in_transaction |= set(range(200, 300))
    for number in range(200, 300):
        producers.remember(Sent(0, 0, producer_id=number))
    assert in_transaction <= dict(producers.items()).keys()
    producers.expire(Millis(1 << 62))
    assert dict(producers.items()).keys() == in_transaction


def test_the_producers_of_all_partitions_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes in a new one forgets its own that was silent for longest; a few stay everywhere."""
    monkeypatch.setattr(producers_module, "MOST_OF_ALL", 100)
    count = ProducerCount()
    first, second = Producers(count), Producers(count)
    for number in range(90):
        first.remember(Sent(0, 0, producer_id=number))
    for number in range(50):
        second.remember(Sent(0, 0, producer_id=number))
    assert (len(first), len(second), count.total) == (90, 20, 110), "the second one has its twenty"
    first.remember(Sent(0, 1, producer_id=0))
    assert len(first) == 90, "who is known needs no room"
    first.remember(Sent(0, 0, producer_id=1000))
    assert (len(first), count.total) == (80, 100)
    assert {0, 1000} <= dict(first.items()).keys()
    restored = Producers.from_bytes(bytes_of(first), count)
    assert restored is not None
    assert (len(restored), count.total) == (20, 120)
    restored.expire(Millis(1 << 62))
    assert count.total == 100
    first.clear()
    assert count.total == len(second)

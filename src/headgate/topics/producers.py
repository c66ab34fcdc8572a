"""State of one partition's idempotent and transactional producers, and the checks that use it.

Rules (those of Kafka's brokers):

1. An unknown producer may start at any sequence.
2. The next batch of a producer starts one after its last sequence; 2^31 - 1 is followed by 0.
3. A batch with the epoch and sequences of one of the last five is a duplicate: the answer is the first offset
   of that batch.
4. Any other sequence is OUT_OF_ORDER_SEQUENCE_NUMBER, also that of a batch older than the last five.
5. An older epoch is INVALID_PRODUCER_EPOCH; a newer one starts again at sequence 0. A marker that ends a
   transaction may have a newer epoch than its batches: the epochs before it are then fenced.
6. A producer without a batch for `producer.id.expiration.ms` is removed. Unlike in Kafka, the least recent
   one is removed too beyond `MOST_PRODUCERS`, or `MOST_OF_ALL` in all partitions, as a client may use a new
   id for each batch. `FEWEST_PRODUCERS` of a partition are always kept, and so is every producer with an open
   transaction.

The table is derived from the log; a snapshot (`snapshot.py`) saves reading all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.header import BatchHeader, Buffer
from headgate.log.markers import read_marker

REMEMBERED_BATCHES = 5
MOST_PRODUCERS = 10_000
"""Per partition; each takes about half a kilobyte."""
MOST_OF_ALL = 200_000
FEWEST_PRODUCERS = 20
_MAXIMUM_SEQUENCE = (1 << 31) - 1

_TRIED_TO_REMOVE = 32
"""At most so many producers with open transactions are passed over to remove one."""
_PRODUCER = struct.Struct(">qhqiB")  # id, epoch, last timestamp, coordinator epoch, remembered batches
_BATCH = struct.Struct(">iiqqq")


def sequence_after(sequence: int, steps: int) -> int:
    """Return the sequence `steps` after `sequence`, wrapping from 2^31 - 1 to 0."""
    return (sequence + steps) & _MAXIMUM_SEQUENCE


class SequencedBatch(Protocol):
    """The fields of a batch header that sequence checks use."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...


class RememberedBatch(NamedTuple):
    """Sequences, offsets and timestamp of one of a producer's last five batches in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class ProducerState:
    """The last batches of one producer, oldest first; all of one epoch, at most five.

    None after a marker with a newer epoch.
    """

    epoch: int
    last_timestamp: int
    batches: list[RememberedBatch] = field(default_factory=list)
    coordinator_epoch: int = -1
    """The epoch of the transaction coordinator that wrote the last marker; -1 without a marker."""
    marker_at: int = -1
    """The offset of the last marker, if it was read or written since the log was opened."""

    @property
    def last_sequence(self) -> int:
        """The last sequence in this epoch; -1 without one."""
        return self.batches[-1].last_sequence if self.batches else -1

    def is_told_in(self, first: int, end: int) -> bool:
        """Return whether the last batch, or the last marker, is at or after `first`, and before `end`."""
        last_offset = self.batches[-1].last_offset if self.batches else -1
        return first <= last_offset < end or first <= self.marker_at < end


class ProducerCopy(NamedTuple):
    """The state of a producer as of a moment."""

    producer_id: int
    epoch: int
    last_timestamp: int
    coordinator_epoch: int
    batches: tuple[RememberedBatch, ...]

    def to_bytes(self) -> bytes:
        """Return it as a part of a snapshot."""
        *numbers, batches = self
        return _PRODUCER.pack(*numbers, len(batches)) + b"".join(_BATCH.pack(*batch) for batch in batches)


class ProducerCount:
    """How many producers all partitions of a node remember together."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


class Producers:
    """The idempotent and transactional producers of one partition."""

    __slots__ = ("_count", "_in_transaction", "_states")

    def __init__(self, count: ProducerCount | None = None, in_transaction: Container[int] = ()) -> None:
        """`count` counts these producers together with those of other partitions; those `in_transaction` are
        never removed.
        """
        self._count = ProducerCount() if count is None else count
        self._in_transaction = in_transaction
        self._states: dict[int, ProducerState] = {}
        """By producer id, the least recent one first."""

    def clear(self) -> None:
        """Forget all of them: what was derived from the log is wrong, or not needed any more."""
        self._count.total -= len(self._states)
        self._states = {}

    def __len__(self) -> int:
        return len(self._states)

    def check(self, batch: SequencedBatch) -> ErrorCode | RememberedBatch:
        """Check a batch before its append: return NONE, an error, or the earlier batch that it duplicates."""
        state = self._states.get(batch.producer_id)
        if state is None:
            return ErrorCode.NONE
        if batch.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > state.epoch:
            return ErrorCode.NONE if batch.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        last_sequence = sequence_after(batch.base_sequence, batch.last_offset_delta)
        for remembered in state.batches:
            if remembered.first_sequence == batch.base_sequence and remembered.last_sequence == last_sequence:
                return remembered
        if batch.base_sequence == sequence_after(state.last_sequence, 1):
            return ErrorCode.NONE
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def take(self, header: BatchHeader, batch: Buffer) -> None:
        """Record a batch that is in the log, live or at load. Raises CorruptBatch."""
        if not header.is_control:
            self.remember(header)
        elif header.producer_id >= 0 and header.record_count:
            marker = read_marker(batch)
            if marker is not None:
                self.remember_marker(header, marker.coordinator_epoch)

    def remember(self, batch: SequencedBatch) -> None:
        """Record a batch that is in the log, live or at load. Batches without a sequence change nothing."""
        if batch.producer_id < 0 or batch.base_sequence < 0:
            return
        remembered = RememberedBatch(
            batch.base_sequence,
            sequence_after(batch.base_sequence, batch.last_offset_delta),
            batch.base_offset,
            batch.base_offset + batch.last_offset_delta,
            batch.max_timestamp,
        )
        state = self._state_at(batch)
        state.batches.append(remembered)
        if len(state.batches) > REMEMBERED_BATCHES:
            del state.batches[0]

    def remember_marker(self, batch: SequencedBatch, coordinator_epoch: int) -> None:
        """Record a marker that is in the log, live or at load."""
        state = self._state_at(batch)
        state.coordinator_epoch = coordinator_epoch
        state.marker_at = batch.base_offset

    def _state_at(self, batch: SequencedBatch) -> ProducerState:
        """Return the state of the batch's producer, now the most recent one, in the batch's epoch."""
        state = self._states.pop(batch.producer_id, None)
        if state is None:
            state = ProducerState(batch.producer_epoch, batch.max_timestamp)
            self._states[batch.producer_id] = state
            self._count.total += 1
            self._make_room()
            return state
        self._states[batch.producer_id] = state
        state.last_timestamp = batch.max_timestamp
        if state.epoch != batch.producer_epoch:
            state.epoch = batch.producer_epoch
            state.batches = []
        return state

    def _make_room(self) -> None:
        states, count = self._states, self._count
        tries = _TRIED_TO_REMOVE
        while tries and (
            len(states) > MOST_PRODUCERS or (count.total > MOST_OF_ALL and len(states) > FEWEST_PRODUCERS)
        ):
            producer_id = next(iter(states))
            state = states.pop(producer_id)
            if producer_id in self._in_transaction:
                states[producer_id] = state
                tries -= 1
            else:
                count.total -= 1

    def expire(self, before: Millis) -> int:
        """Remove producers without an open transaction whose last batch is older than `before` (ms); return
        how many.
        """
        stale = [
            key
            for key, state in self._states.items()
            if state.last_timestamp < before and key not in self._in_transaction
        ]
        for producer_id in stale:
            del self._states[producer_id]
        self._count.total -= len(stale)
        return len(stale)

    def get(self, producer_id: int) -> ProducerState | None:
        """Return the state of a producer."""
        return self._states.get(producer_id)

    def items(self) -> Iterable[tuple[int, ProducerState]]:
        """Return every producer id with its state."""
        return self._states.items()

    def copied(self) -> list[ProducerCopy]:
        """Return a copy of the table for a snapshot, to be encoded by another thread."""
        return [
            ProducerCopy(
                producer_id,
                state.epoch,
                state.last_timestamp,
                state.coordinator_epoch,
                tuple(state.batches),
            )
            for producer_id, state in self._states.items()
        ]

    def count_with(self, count: ProducerCount) -> None:
        """Count these producers together with those of other partitions."""
        self._count.total -= len(self._states)
        self._count = count
        count.total += len(self._states)
        self._make_room()

    @classmethod
    def from_bytes(
        cls, data: bytes, total: ProducerCount | None = None, in_transaction: Container[int] = ()
    ) -> Producers | None:
        """Return the table in a part of a snapshot; None for bytes that are none."""
        states: dict[int, ProducerState] = {}
        at = 0
        try:
            while at < len(data):
                producer_id, epoch, last_timestamp, coordinator_epoch, batches = _PRODUCER.unpack_from(
                    data, at
                )
                at += _PRODUCER.size
                remembered = [
                    RememberedBatch(*_BATCH.unpack_from(data, at + index * _BATCH.size))
                    for index in range(batches)
                ]
                at += batches * _BATCH.size
                states[producer_id] = ProducerState(epoch, last_timestamp, remembered, coordinator_epoch)
        except struct.error:
            return None
        producers = cls(total, in_transaction)
        producers._states = states
        producers._count.total += len(states)
        producers._make_room()
        return producers

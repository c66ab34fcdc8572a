"""A state log in memory that delays, loses, fences and interleaves, as a log on another machine may.

`Broker` is the other machine; what it stores is durable. A `MemoryLog` is one writer's connection to it.
Batches take a while to arrive, arrive in order, and are reported later. A loss drops a batch in flight and
all after it, also those that are appended before the loss is reported. Arrived batches remain, also
unreported ones. Batches of other writers may arrive in between, so positions may differ from the expected
ones. The last claimer is the writer; batches of others are refused.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from random import Random

from headgate.log.batch import Record, encode_batch, iterate_records, place_batch, read_header
from headgate.log.header import BatchHeader
from headgate.log.markers import EndMarker, encode_marker
from headgate.runtime.checkpoint_store import CheckpointStore
from headgate.runtime.state_log import Batches, Lost

STRANGER = 999_999
"""Id of an unknown producer, whose markers interleave with our batches."""
BATCHES_AT_ONCE = 3


class Broker:
    """The stored batches of one log, for all its writers."""

    def __init__(self, random: Random, slowest_seconds: float = 0.0, *, compacts: bool = False) -> None:
        self.random = random
        self.slowest_seconds = slowest_seconds
        self.compacts = compacts
        """Whether the log compacts itself."""
        self.interleaves = 0.0
        """Probability that a batch of another writer arrives before one of ours."""
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.end = 0
        self.writer: MemoryLog | None = None
        self.refuses = False
        """Whether the broker is unreachable: batches are lost, and claims fail."""

    def arrive(self, batch: bytearray) -> BatchHeader:
        """Append a batch. Return its header, which holds its position."""
        place_batch(batch, 0, self.end, 0)
        header = read_header(batch)
        self.batches.append((header, bytes(batch)))
        self.end = header.next_offset
        return header

    def arrive_from_others(self) -> list[tuple[BatchHeader, bytes]]:
        """Append, at random, a marker of another writer. Return the appended batches."""
        if self.random.random() >= self.interleaves:
            return []
        marker = EndMarker(self.random.random() < 0.5, 1)
        self.arrive(encode_marker(marker, STRANGER, 0, 0))
        return self.batches[-1:]

    def compact(self) -> int:
        """Keep the last record of every key, without knowledge of runs. Return how many records were removed.

        Records of transactions and their markers remain.
        """
        before = self.batches
        plain = [batch for header, batch in before if not header.is_transactional]
        last = {record.key: offset for batch in plain for offset, record in iterate_records(batch)}
        self.batches, dropped = [], 0
        for header, batch in before:
            if header.is_transactional:
                self.batches.append((header, batch))
                continue
            for offset, record in iterate_records(batch):
                if last[record.key] != offset:
                    dropped += 1
                    continue
                kept = encode_batch([record], base_offset=offset)
                self.batches.append((read_header(kept), bytes(kept)))
        return dropped


class MemoryLog:
    """A `headgate.runtime.state_log.StateLog`: one writer's connection to a broker."""

    def __init__(self, broker: Broker, name: str = "memory") -> None:
        self.name = name
        self.max_batch_bytes = 1 << 20
        self.checkpoints: CheckpointStore | None = None
        self.compacts_itself = broker.compacts
        self.durable_position = 0
        self.on_durable: Callable[[int], None] = lambda position: None
        self.on_others: Callable[[Batches], None] = lambda batches: None
        self.on_lost: Callable[[Lost, Exception | None], None] = lambda lost, failure: None
        self.broker = broker
        self._loop = asyncio.get_running_loop()
        self._claims = 0
        self._is_usable = False
        self._has_lost = False
        """Whether a batch in flight was lost, which is reported later."""
        self._sent: list[tuple[bytearray, int]] = []
        """Batches in flight, each with the end that `append` returned."""
        self._untold: list[tuple[Batches, int]] = []
        """Arrived and unreported batches: those of others, and the returned end of ours after them."""
        self._expected_end = 0

    # --- claim, read, release ---

    async def claim(self) -> int:
        """Fence the previous writer, after a delay. Raises OSError while the broker refuses."""
        self._forget()
        await asyncio.sleep(self._delay())
        broker = self.broker
        if broker.refuses:
            raise OSError(errno.EIO, "nobody answers", self.name)
        former, broker.writer = broker.writer, self
        if former is not None and former is not self:
            former.fenced()
        self._is_usable = True
        self._expected_end = self.durable_position = broker.end
        return broker.end

    def fenced(self) -> None:
        """React to another writer's claim, which is reported later."""
        if self._is_usable:
            self._lose(Lost.FENCED)

    async def read(self, start: int, end: int) -> AsyncGenerator[Batches]:
        """Yield a few batches at a time, each time after a delay."""
        wanted = [one for one in self.broker.batches if start < one[0].next_offset <= end]
        for first in range(0, len(wanted), BATCHES_AT_ONCE):
            await asyncio.sleep(self._delay())
            if self.broker.refuses:
                raise OSError(errno.EIO, "nobody answers", self.name)
            yield wanted[first : first + BATCHES_AT_ONCE]

    def try_append(self) -> None:
        """Raise OSError while the broker refuses."""
        if self.broker.refuses:
            raise OSError(errno.EIO, "nobody answers", self.name)

    def release(self) -> None:
        """Close the log: batches in flight arrive, unless the broker refuses."""
        claims = self._claims
        while self._sent and not self.broker.refuses and self.broker.writer is self:
            self._arrive(claims)
        while self._untold:
            self._tell(claims)
        self._forget()

    def die(self) -> None:
        """End like a killed process: some of the batches in flight arrive, unless the broker refuses them."""
        if self.broker.writer is self and not self.broker.refuses:
            for batch, _ in self._sent[: self.broker.random.randint(0, len(self._sent))]:
                self.broker.arrive(batch)
        self._forget()

    def _forget(self) -> None:
        self._claims += 1
        self._is_usable = self._has_lost = False
        self._sent = []
        self._untold = []

    # --- appending ---

    def append(self, batches: Sequence[bytearray]) -> int:
        """Send batches. Raises OSError until the log is claimed."""
        if not self._is_usable:
            raise OSError(errno.EIO, "the log was lost and is not claimed", self.name)
        for batch in batches:
            self._expected_end += read_header(batch).record_count
            if not self._has_lost:
                self._sent.append((batch, self._expected_end))
                self._loop.call_later(self._delay(), self._arrive, self._claims)
        return self._expected_end

    def _arrive(self, claims: int) -> None:
        """Deliver the oldest batch in flight, or lose it and all after it."""
        if claims != self._claims or not self._sent:
            return
        broker = self.broker
        if broker.writer is not self or broker.refuses:
            self._lose(Lost.FAILED if broker.writer is self else Lost.FENCED)
            return
        batch, expected_end = self._sent.pop(0)
        others = broker.arrive_from_others()
        header = broker.arrive(batch)
        behind = sum(read_header(one).record_count for one, _ in self._sent)
        self._expected_end = max(self._expected_end, header.next_offset + behind)
        self._untold.append((others, expected_end))
        self._loop.call_later(self._delay(), self._tell, claims)

    def _tell(self, claims: int) -> None:
        if claims == self._claims and self._untold:
            others, expected_end = self._untold.pop(0)
            if others:
                self.on_others(others)
            self.durable_position = expected_end
            self.on_durable(expected_end)

    def _lose(self, lost: Lost) -> None:
        """Lose the batches in flight and all that follow, and report it later."""
        self._sent.clear()
        self._has_lost = True
        self._loop.call_later(self._delay(), self._lost, lost, self._claims)

    def _lost(self, lost: Lost, claims: int) -> None:
        if claims == self._claims and self._is_usable:
            self._forget()
            self.on_lost(lost, OSError(errno.EIO, f"the log was lost: {lost.name}", self.name))

    def is_ready(self, within_seconds: float) -> bool:
        """Return whether no batch is in flight."""
        return not self._sent

    def flush(self) -> None:
        """Do nothing: appended batches are in flight already."""

    def _delay(self) -> float:
        return self.broker.random.random() ** 3 * self.broker.slowest_seconds


def records_in(broker: Broker) -> Iterator[tuple[int, Record]]:
    """Yield all records of a broker's log with their positions, without markers."""
    for header, batch in broker.batches:
        if not header.is_control:
            yield from iterate_records(batch)

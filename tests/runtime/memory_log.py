"""A state log in memory that delays, loses, fences and interleaves: what a log on another machine may do.

`Broker` is the other machine: what it has is durable, whoever wrote it. A `MemoryLog` is one writer's end of
it. Batches are on their way for a while, arrive in order, and are told of later still. On the way they can be
lost from any batch on; what arrived stays, told of or not. Batches of others may arrive between, so positions
are not what was expected. Whoever claims last writes; what others send then is refused.
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
"""The id of a producer that nobody knows: markers of its transactions stand between ours."""
BATCHES_AT_ONCE = 3


class Broker:
    """What is kept of one log, for all who write it."""

    def __init__(self, random: Random, slowest_seconds: float = 0.0, *, compacts: bool = False) -> None:
        self.random = random
        self.slowest_seconds = slowest_seconds
        self.compacts = compacts
        """Whether the log compacts itself."""
        self.interleaves = 0.0
        """How probable it is that a batch of somebody else arrives before one of ours."""
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.end = 0
        self.writer: MemoryLog | None = None
        self.refuses = False
        """Whether nobody gets through to it: what is sent is lost, and nobody can claim the log."""

    def arrive(self, batch: bytearray) -> BatchHeader:
        """Take a batch in at the end; its header says where that is."""
        place_batch(batch, 0, self.end, 0)
        header = read_header(batch)
        self.batches.append((header, bytes(batch)))
        self.end = header.next_offset
        return header

    def arrive_from_others(self) -> list[tuple[BatchHeader, bytes]]:
        """Perhaps somebody else writes: a marker that concerns nobody here."""
        if self.random.random() >= self.interleaves:
            return []
        marker = EndMarker(self.random.random() < 0.5, 1)
        self.arrive(encode_marker(marker, STRANGER, 0, 0))
        return self.batches[-1:]

    def compact(self) -> int:
        """Keep the last record of every key, blind to what they mean; how many records went.

        What transactions wrote stays, and so do their markers.
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
    """A `headgate.runtime.state_log.StateLog`: one writer's end of a broker."""

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
        self._sent: list[tuple[bytearray, int]] = []
        """What is on its way, each batch with the end that was told for it."""
        self._untold: list[tuple[Batches, int]] = []
        """What arrived and was not told of: batches of others, and the end told for ours behind them."""
        self._expected_end = 0

    # --- from claim to claim ---

    async def claim(self) -> int:
        """Fence whoever wrote before, a while later. Raises OSError where the broker refuses."""
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
        """Somebody else has claimed the log; this end hears of it later."""
        self._sent.clear()
        if self._is_usable:
            self._loop.call_later(self._delay(), self._lost, Lost.FENCED, self._claims)

    async def read(self, start: int, end: int) -> AsyncGenerator[Batches]:
        """A few batches at a time, each after a while."""
        wanted = [one for one in self.broker.batches if start < one[0].next_offset <= end]
        for first in range(0, len(wanted), BATCHES_AT_ONCE):
            await asyncio.sleep(self._delay())
            if self.broker.refuses:
                raise OSError(errno.EIO, "nobody answers", self.name)
            yield wanted[first : first + BATCHES_AT_ONCE]

    def release(self) -> None:
        """The shard is closed: what was sent arrives, unless nobody gets through."""
        claims = self._claims
        while self._sent and not self.broker.refuses and self.broker.writer is self:
            self._arrive(claims)
        while self._untold:
            self._tell(claims)
        self._forget()

    def die(self) -> None:
        """The process ends here and now: of what was sent some arrives."""
        for batch, _ in self._sent[: self.broker.random.randint(0, len(self._sent))]:
            self.broker.arrive(batch)
        self._forget()

    def _forget(self) -> None:
        self._claims += 1
        self._is_usable = False
        self._sent = []
        self._untold = []

    # --- appending ---

    def append(self, batches: Sequence[bytearray]) -> int:
        """Send batches. Raises OSError while the log has to be claimed first."""
        if not self._is_usable:
            raise OSError(errno.EIO, "the log was lost and is not claimed", self.name)
        for batch in batches:
            self._expected_end += read_header(batch).record_count
            self._sent.append((batch, self._expected_end))
            self._loop.call_later(self._delay(), self._arrive, self._claims)
        return self._expected_end

    def _arrive(self, claims: int) -> None:
        """The oldest batch that is on its way is there, or it and all behind it are lost."""
        if claims != self._claims or not self._sent:
            return
        broker = self.broker
        if broker.writer is not self or broker.refuses:
            self._sent.clear()
            self._loop.call_later(self._delay(), self._lost, Lost.FAILED, claims)
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

    def _lost(self, lost: Lost, claims: int) -> None:
        if claims == self._claims and self._is_usable:
            self._forget()
            self.on_lost(lost, OSError(errno.EIO, f"the log was lost: {lost.name}", self.name))

    def is_ready(self, within_seconds: float) -> bool:
        """Whether nothing is on its way."""
        return not self._sent

    def flush(self) -> None:
        """What was appended is on its way already."""

    def _delay(self) -> float:
        return self.broker.random.random() ** 3 * self.broker.slowest_seconds


def records_in(broker: Broker) -> Iterator[tuple[int, Record]]:
    """All records of a broker's log but for markers, with their positions."""
    for header, batch in broker.batches:
        if not header.is_control:
            yield from iterate_records(batch)

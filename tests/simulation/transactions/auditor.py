"""Reads all partitions and offsets through the server, and compares them with the books.

The records of a partition are read twice: committed ones as a consumer does it, with the list of aborted
transactions, and then all batches with their markers, which tell the fate of every record. Both must agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.requests import Violation
from tests.simulation.transactions.books import Books, Fate, Place, Transaction
from tests.simulation.transactions.link import Link, Lost
from tests.simulation.transactions.requests import AGAIN
from tests.simulation.transactions.worker import GROUP, INPUT, check_inputs

from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode
from headgate.log.batch import iterate_records, read_header
from headgate.log.header import BatchHeader
from headgate.log.markers import read_marker
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.list_transactions import ListTransactionsRequest
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from tests.simulation.transactions.life import TransactionLife
    from tests.simulation.transactions.world import TransactionWorld

COMMITTED, UNCOMMITTED = 1, 0
PAUSE_SECONDS = 0.05
MOST_ATTEMPTS = 1000


class Batch(NamedTuple):
    """A batch of a partition: its header and the values of its records; a marker has none."""

    header: BatchHeader
    values: list[bytes]
    is_commit: bool | None
    """Whether it is a marker, of a commit or not."""


@dataclass
class Read:
    """What a reader got of a partition."""

    batches: list[Batch] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    """The values that a reader of committed records keeps."""
    last_stable_offset: int = 0
    high_watermark: int = 0


class Found(NamedTuple):
    """A record with the fate that the markers tell."""

    value: bytes
    offset: int
    fate: Fate


class Auditor:
    """Reads what the server has, at the start, in between and at the end."""

    def __init__(self, world: TransactionWorld) -> None:
        self._world = world
        self._books: Books = world.books
        self._random = world.random

    async def follow(self, life: TransactionLife) -> None:
        """Read now and then while others write."""
        link = Link(life, "reader")
        while True:
            await asyncio.sleep(self._random.random() * 10 * self._world.plan.pace_seconds)
            try:
                await self._check_partition(link, self._random.choice(self._world.places))
                await self._check_offsets(link)
            except Lost:
                link = Link(life, "reader")

    async def check_all(self, life: TransactionLife, *, is_quiet: bool) -> None:
        """Check everything while nobody writes. `is_quiet`: nothing is open either."""
        link = Link(life, "auditor", is_safe=True)
        found = {place: await self._check_partition(link, place) for place in self._world.places}
        if not self._world.disk.refused_at >= life.began_at:
            self._check_whole(found, is_quiet=is_quiet)
            self._books.decided_complete(self._world.time.seconds)
            await self._check_inputs(link)
        await self._check_offsets(link)
        if is_quiet:
            await self._check_none_open(link)
        life.world.journal.counts["audits"] += 1

    # --- records ---

    async def _check_partition(self, link: Link, place: Place) -> list[Found]:
        """Check one partition. Raises Violation."""
        acknowledged = {
            value
            for one in self._books.transactions.values()
            for value in one.acknowledged
            if one.records[value] == place
        }
        committed = await self._read(link, place, COMMITTED)
        everything = await self._read(link, place, UNCOMMITTED)
        found = list(self._fates(everything.batches))
        sure = [
            one.value
            for one in found
            if one.fate is Fate.COMMITTED and one.offset < committed.last_stable_offset
        ]
        if committed.values != sure:
            raise Violation(f"{place}: committed records are {sure}, and readers get {committed.values}")
        seen = self._books.seen.get(place, [])
        if committed.values[: len(seen)] != seen:
            raise Violation(f"{place}: readers got {seen}, and now {committed.values}")
        self._books.seen[place] = committed.values
        self._check_records(place, found, acknowledged)
        return found

    def _check_records(self, place: Place, found: list[Found], acknowledged: set[bytes]) -> None:
        last: dict[int, int] = {}
        values = [one.value for one in found]
        if len(set(values)) < len(values):
            raise Violation(f"{place} has a record twice: {values}")
        for record in found:
            one, index = self.owner(record.value)
            if one.records.get(record.value) != place:
                raise Violation(f"{place} has {record}, which nobody sent there")
            if last.get(one.number, -1) >= index:
                raise Violation(f"{place} has {record} before another one")
            last[one.number] = index
            if record.fate is not Fate.OPEN:
                one.ends(record.fate)
        for value in acknowledged - set(values):
            one, _ = self.owner(value)
            if one.is_commit_asked and one.fate is Fate.COMMITTED:
                raise Violation(f"{place} has lost {value!r} of {one}")
            if self._books.is_open_for_certain(one, self._world.time.seconds):
                raise Violation(f"{place} has lost {value!r} of {one}, which is open")

    def owner(self, value: bytes) -> tuple[Transaction, int]:
        """Return the transaction of a record, and its number there."""
        number, _, index = value.partition(b".")
        return self._books.transactions[int(number)], int(index)

    def _fates(self, batches: Iterable[Batch]) -> Iterator[Found]:
        """Yield all records with their fates, in order."""
        found: list[Found] = []
        open_of: dict[int, list[int]] = {}
        for batch in batches:
            producer_id = batch.header.producer_id
            if batch.is_commit is not None:
                fate = Fate.COMMITTED if batch.is_commit else Fate.ABORTED
                for at in open_of.pop(producer_id, ()):
                    found[at] = found[at]._replace(fate=fate)
                continue
            for value in batch.values:
                one, _ = self.owner(value)
                producer = Producer(producer_id, batch.header.producer_epoch)
                if producer != one.producer:
                    raise Violation(f"{value!r} of {one} has the producer {producer}")
                open_of.setdefault(producer_id, []).append(len(found))
                found.append(Found(value, batch.header.base_offset, Fate.OPEN))
        return iter(found)

    def _check_whole(self, found: dict[Place, list[Found]], *, is_quiet: bool) -> None:
        """Check that each transaction has the same fate everywhere, and all that was acknowledged."""
        fates: dict[int, dict[Fate, Place]] = {}
        for place, records in found.items():
            for record in records:
                one, _ = self.owner(record.value)
                fates.setdefault(one.number, {})[record.fate] = place
        for number, of in fates.items():
            one = self._books.transactions[number]
            is_mixed = len(of) > 1 or (one.fate is not Fate.OPEN and one.fate not in of)
            if is_mixed and not self._is_timing_out(one, of):
                raise Violation(f"{one} is {of}")
            if is_quiet and Fate.OPEN in of:
                raise Violation(f"{one} hangs in {of}")
        everything = {record.value for records in found.values() for record in records}
        for one in self._books.transactions.values():
            if one.fate is Fate.COMMITTED and not one.acknowledged <= everything:
                raise Violation(f"{one} was committed without {one.acknowledged - everything}")

    def _is_timing_out(self, one: Transaction, fates: Iterable[Fate]) -> bool:
        """Return whether the server may be writing the markers of a timeout just now."""
        return self._books.may_have_timed_out(one, self._world.time.seconds) and Fate.COMMITTED not in fates

    async def _read(self, link: Link, place: Place, isolation_level: int) -> Read:
        """Read a partition from its start to its end."""
        read = Read()
        dropped: set[int] = set()
        offset = 0
        while True:
            data = await self._fetch(link, place, isolation_level, offset)
            read.last_stable_offset, read.high_watermark = data.last_stable_offset, data.high_watermark
            end = data.last_stable_offset if isolation_level == COMMITTED else data.high_watermark
            if not data.records:
                if offset < end and not await self._begins_again_behind(link, place, offset, end):
                    raise Violation(f"{place} has nothing at {offset} before its end at {end}")
                return read
            aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
            for batch in batches_in(data.records):
                if batch.header.base_offset < offset:
                    continue
                if batch.header.next_offset > end:
                    raise Violation(f"{place}: a reader got {batch} beyond {end}")
                offset = batch.header.next_offset
                read.batches.append(batch)
                while aborted and aborted[0][0] <= batch.header.last_offset:
                    dropped.add(aborted.pop(0)[1])
                if batch.is_commit is not None:
                    dropped.discard(batch.header.producer_id)
                elif batch.header.producer_id not in dropped:
                    read.values += batch.values

    async def _begins_again_behind(self, link: Link, place: Place, offset: int, end: int) -> bool:
        """Return whether the first batch from `offset` on is behind `end`, as compaction removed the others.

        The last stable offset may be the end of a compacted segment whose last records are gone.
        """
        data = await self._fetch(link, place, UNCOMMITTED, offset)
        first = next(batches_in(data.records), None)
        return first is not None and first.header.base_offset >= end

    async def _fetch(self, link: Link, place: Place, isolation_level: int, offset: int) -> Any:
        topic, index = place
        size = self._random.choice((300, 2000, 1 << 20))
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(
            isolation_level=isolation_level,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        return await self.ask(link, request, 12, lambda answer: answer.responses[0].partitions[0])

    async def ask(self, link: Link, request: Any, version: int, part: Callable[[Any], Any]) -> Any:
        """Ask until a part of the answer has no error; return it. Raises Lost, Violation."""
        for _ in range(MOST_ATTEMPTS):
            found = part(await link.ask(request, version))
            error = ErrorCode(found.error_code)
            if error is ErrorCode.NONE:
                return found
            if error not in AGAIN:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        raise Violation(f"{request} was refused with {error.name}")

    # --- offsets ---

    async def _check_offsets(self, link: Link) -> None:
        """Check the offsets of all groups, with and without those of open transactions."""
        for is_stable in (False, True):
            for group_id in self._world.groups:
                since = self._world.time.seconds
                topics = await self._offsets(link, group_id, self._world.places, is_stable=is_stable)
                now = self._world.time.seconds
                for topic, index, offset, error in topics:
                    key = group_id, topic, index
                    if is_stable:
                        self._books.check_stability(key, bool(error), since, now)
                    if not error:
                        self._books.check_offset(key, offset, since, now)

    async def _check_inputs(self, link: Link) -> None:
        inputs = [(INPUT, index) for index in range(self._world.plan.partitions)]
        found = await self._offsets(link, GROUP, inputs, is_stable=False)
        check_inputs(self._books, {index: max(offset, 0) for _, index, offset, _ in found})

    async def _offsets(
        self, link: Link, group_id: str, places: Iterable[Place], *, is_stable: bool
    ) -> list[tuple[str, int, int, ErrorCode]]:
        wanted: dict[str, list[int]] = {}
        for topic, index in places:
            wanted.setdefault(topic, []).append(index)
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[OffsetFetchRequestTopics(name=name, partition_indexes=of) for name, of in wanted.items()],
        )
        request = OffsetFetchRequest(groups=[group], require_stable=is_stable)
        answer = await self.ask(link, request, 8, lambda answer: answer.groups[0])
        found: list[tuple[str, int, int, ErrorCode]] = []
        for topic in answer.topics:
            for one in topic.partitions:
                error = ErrorCode(one.error_code)
                if error not in (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT):
                    raise Violation(f"{group_id} is told {error.name} of {topic.name}")
                found.append((topic.name, one.partition_index, one.committed_offset, error))
        return found

    # --- nothing is left ---

    async def _check_none_open(self, link: Link) -> None:
        request = ListTransactionsRequest(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
        answer = await self.ask(link, request, 2, lambda answer: answer)
        if answer.transaction_states:
            raise Violation(f"{answer.transaction_states} are left open")


def batches_in(records: bytes) -> Iterator[Batch]:
    """Yield the batches of a response."""
    at = 0
    while at < len(records):
        header = read_header(records, at)
        batch = records[at : at + header.size]
        at += header.size
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                yield Batch(header, [], marker.is_committed)
        else:
            values = [record.value for _, record in iterate_records(batch)] if header.record_count else []
            yield Batch(header, [value for value in values if value is not None], None)

"""A transactional producer: it begins, writes, commits offsets, ends or hangs, and begins anew when fenced.

It lives longer than the server: what it had begun goes on in the server's next life, or is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from tests.simulation.requests import Violation
from tests.simulation.transactions import requests
from tests.simulation.transactions.books import NOTHING, Ask, Fate, OffsetWrite, Place, Transaction
from tests.simulation.transactions.link import Link, Lost
from tests.simulation.transactions.requests import AGAIN, errors_in

from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.transactions.life import TransactionLife
    from tests.simulation.transactions.world import TransactionWorld

PAUSE_SECONDS = 0.02
"""Pause before a request is repeated."""
GROUPS = ("g0", "g1", "g2")


class Refused(Exception):
    """The producer cannot go on, as it is fenced or its transaction was aborted."""

    def __init__(self, errors: set[ErrorCode]) -> None:
        super().__init__(errors)
        self.errors = errors


class TransactionalProducer:
    """One client with a transactional id, which it may share with others."""

    def __init__(
        self,
        world: TransactionWorld,
        index: int,
        transactional_id: str,
        version: int,
        *,
        has_rivals: bool = False,
    ) -> None:
        self.world = world
        self.books = world.books
        self.random = world.random
        self.name = f"producer-{index}"
        self.id = transactional_id
        self.version = version
        """The version of transactions: 1 or 2."""
        self.link: Link
        self._has_rivals = has_rivals
        self._timeout_seconds = world.plan.timeout_seconds * self.random.choice((0.5, 1.0))
        self._producer: Producer | None = None
        self._former: Producer | None = None
        self._ask: Ask | None = None
        self._sequences: dict[Place, int] = {}
        self._open: Transaction | None = None
        self._added: set[Any] = set()
        """Partitions and groups that the client has added to the open transaction, in version 1."""
        self._unanswered: dict[Place, tuple[list[bytes], bytes]] = {}
        """Values and batch of each partition that has not answered yet."""
        self._has_waited = False

    # --- its life ---

    async def live(self, life: TransactionLife) -> None:
        """Work until the server ends."""
        self.link = Link(life, self.name)
        while True:
            try:
                await self._go_on()
            except Lost as lost:
                self.link = Link(life, self.name)
                if self.version == 1 and lost.may_arrive and self._open is not None:
                    self._open.is_end_asked = True  # in this epoch it could not tell a late batch from others
                elif self.random.random() < 0.3:
                    self._begin_anew()
            except Refused:
                self._begin_anew()
                await self._rest()

    async def _go_on(self) -> None:
        if self._producer is None:
            await self._begin()
        if self._open is None:
            await self.rest_between()
            await self._plain_change()
        await self.transact()

    def _begin_anew(self) -> None:
        """Forget what was begun; the next producer aborts it."""
        if self._open is not None:
            self._open.is_end_asked = True
        self._former = self._producer
        self._producer = self._open = None

    async def _rest(self) -> None:
        await asyncio.sleep(self.random.random() * self.world.plan.pace_seconds)

    async def rest_between(self) -> None:
        """Rest between two transactions; a producer with rivals sometimes for long."""
        await self._rest()
        if self._has_rivals and self.random.random() < 0.5:
            await asyncio.sleep(self.random.random() * self._timeout_seconds)

    # --- requests ---

    async def ask(self, request: Any, version: int, *, may_be_late: bool = False) -> Any:
        """Send a request, again and again if the server wants it. Raises Lost, Refused."""
        while True:
            sent_at = self.world.time.seconds
            answer = await self.link.ask(request, version, may_be_late=may_be_late and self.version == 2)
            errors = set(errors_in(answer))
            if not errors:
                assert self._producer is not None
                self.books.accepted(self.id, self._producer, sent_at)
                return answer
            if not errors <= AGAIN:
                self.check_refusal(request, errors - AGAIN)
                raise Refused(errors)
            await self.pause()

    async def pause(self) -> None:
        """Wait before a request is repeated."""
        await asyncio.sleep(self.random.random() * PAUSE_SECONDS)

    def check_refusal(self, request: Any, errors: set[ErrorCode]) -> None:
        """Check that a producer is refused only if another one or a timeout may have fenced it."""
        assert self._ask is not None
        if self._open is not None and not self._open.is_known and errors == {ErrorCode.INVALID_TXN_STATE}:
            return  # it ends what the server never heard of
        if not self.books.may_be_refused(self._ask, self._open, self.world.time.seconds):
            raise Violation(f"{request} of {self._producer} was refused with {errors}, in {self._open}")
        self.world.journal.counts["refused producers"] += 1

    # --- the beginning ---

    async def _begin(self) -> None:
        """Ask for a producer id and an epoch."""
        expected = self._former if self.random.random() < 0.3 else None
        self._former = None
        request = requests.init_producer_id(self.id, self._timeout_seconds, expected)
        while True:
            ask = self.books.asks(self.id, self.world.time.seconds)
            answer = await self.link.ask(request, 4 if self.version == 1 else 5)
            now = self.world.time.seconds
            ask.until = now
            error = ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                break
            if error not in AGAIN:
                if expected is None:
                    raise Violation(f"{request} was refused with {error.name}")
                raise Refused({error})
            await self.pause()
        self._ask = ask
        self._use(Producer(answer.producer_id, answer.producer_epoch))
        assert self._producer is not None
        self.books.granted(ask, self._producer, now)

    def _use(self, producer: Producer) -> None:
        if producer != self._producer:
            self._sequences = {}
        self._producer = producer

    # --- a transaction ---

    async def transact(self) -> None:
        """Run a transaction to its end, or go on with one."""
        if self._open is None:
            assert self._producer is not None and self._ask is not None
            self._open = self.books.begin(self._ask, self._producer, self._timeout_seconds)
            self._added, self._unanswered, self._has_waited = set(), {}, False
        if self._unanswered and self.random.random() < 0.3:
            self._open.is_end_asked = True  # it gives up, while the server may still be at work on a batch
        if not self._open.is_end_asked:
            await self._resend()
            await self.fill()
            await self._perhaps_hang()
        await self._end()

    async def fill(self) -> None:
        """Write records and commit offsets."""
        for _ in range(self.random.choice((1, 1, 2, 4))):
            await self._rest()
            match self.random.choice(("records", "records", "offsets", "plain")):
                case "records":
                    await self.write(self._some_places(1, 1, 2), self.random.choice((1, 1, 3)))
                case "offsets":
                    await self._commit_offsets()
                case _:
                    await self._plain_change()

    def _some_places(self, *counts: int) -> list[Place]:
        places = self.world.places
        return self.random.sample(places, min(len(places), self.random.choice(counts)))

    async def _perhaps_hang(self) -> None:
        if not self._has_waited and self.random.random() < 0.06:
            self._has_waited = True
            self.world.journal.counts["hanging transactions"] += 1
            await asyncio.sleep(self._timeout_seconds * self.random.choice((0.9, 1.0, 1.2, 2.0)))

    def _begins(self) -> Transaction:
        """Return the open transaction, which the server knows from now on."""
        assert self._open is not None
        self._open.began_at = min(self._open.began_at, self.world.time.seconds)
        return self._open

    async def write(self, places: Sequence[Place], count: int) -> None:
        """Write new records to partitions."""
        one = self._begins()
        if self.version == 1 and (missing := [place for place in places if place not in self._added]):
            await self.ask(requests.add_partitions(self.id, one.producer, missing), 3)
            self.books.began(one, self.world.time.seconds)
            self._added.update(missing)
        for place in places:
            self.add_to_batch(place, [b"%d.%d" % (one.number, len(one.records) + at) for at in range(count)])
        await self._resend()

    def add_to_batch(self, place: Place, values: list[bytes]) -> None:
        """Prepare a batch with these records."""
        one = self._begins()
        one.records.update(dict.fromkeys(values, place))
        sequence = self._sequences.get(place, 0)
        batch = requests.batch_of(one.producer, sequence, values, self.world.time.system_time())
        self._unanswered[place] = values, batch

    async def _resend(self) -> None:
        """Send the batches of all partitions that have not answered, until they have."""
        one = self._open
        assert one is not None
        while self._unanswered:
            request = requests.produce(
                self.id, {place: batch for place, (_, batch) in self._unanswered.items()}
            )
            sent_at = self.world.time.seconds
            version = 12 if self.version == 2 else self.random.choice((9, 11))
            answer = await self.link.ask(request, version, may_be_late=True)
            errors = set()
            for topic in answer.responses:
                for each in topic.partition_responses:
                    if each.error_code:
                        errors.add(ErrorCode(each.error_code))
                        continue
                    assert self._producer is not None
                    self.books.accepted(self.id, self._producer, sent_at)
                    self.books.began(one, self.world.time.seconds)
                    place = topic.name, each.index
                    values, _ = self._unanswered.pop(place)
                    one.acknowledged.update(values)
                    self._sequences[place] = self._sequences.get(place, 0) + len(values)
            if not errors <= AGAIN:
                self.check_refusal(request, errors - AGAIN)
                raise Refused(errors)
            if errors:
                await self.pause()

    async def _commit_offsets(self) -> None:
        group_id = self.random.choice(GROUPS)
        await self.commit(group_id, {place: self.books.next_number() for place in self._some_places(1, 3)})

    async def commit(self, group_id: str, offsets: dict[Place, int], **member: Any) -> None:
        """Commit offsets in the transaction."""
        one = self._begins()
        if self.version == 1 and group_id not in self._added:
            await self.ask(requests.add_offsets(self.id, one.producer, group_id), 3)
            self.books.began(one, self.world.time.seconds)
            self._added.add(group_id)
        request = requests.transactional_commit(self.id, one.producer, group_id, offsets, **member)
        writes = [
            self.books.writes_offset((group_id, *place), offset, one, self.world.time.seconds)
            for place, offset in offsets.items()
        ]
        await self.ask(request, 5 if self.version == 2 else self.random.choice((3, 4)), may_be_late=True)
        self._acknowledge(writes)
        self.books.began(one, self.world.time.seconds)

    def _acknowledge(self, writes: list[OffsetWrite]) -> None:
        for write in writes:
            write.is_acknowledged, write.until = True, self.world.time.seconds

    async def _plain_change(self) -> None:
        """Commit or remove an offset outside of the transaction."""
        if self.random.random() < 0.6:
            return
        group_id, place = self.random.choice(GROUPS), self.random.choice(self.world.places)
        is_removal = self.random.random() < 0.2
        offset = NOTHING if is_removal else self.books.next_number()
        write = self.books.writes_offset((group_id, *place), offset, None, self.world.time.seconds)
        request: Any
        if is_removal:
            request, version = requests.removal(group_id, place), 0
        else:
            request, version = requests.plain_commit(group_id, place, offset), 8
        answer = await self.link.ask(request, version)
        errors = set(errors_in(answer))
        if not errors:
            self._acknowledge([write])
        elif errors - AGAIN - {ErrorCode.GROUP_ID_NOT_FOUND}:
            raise Violation(f"{request} was refused with {errors}")

    # --- its end ---

    def wants_commit(self, one: Transaction) -> bool:
        """Return whether to commit the transaction, or to abort it."""
        return one.is_known and self.random.random() < 0.75

    async def _end(self) -> None:
        one = self._open
        assert one is not None
        if one.began_at == inf:  # the server knows nothing of it
            self._open = None
            one.ends(Fate.ABORTED)
            return
        if not one.is_end_asked:
            one.is_end_asked = True
            one.is_commit_asked = self.wants_commit(one)
        request = requests.end(self.id, one.producer, is_committed=one.is_commit_asked)
        version = 5 if self.version == 2 else self.random.choice((3, 4))
        answer = await self.ask(request, version, may_be_late=True)
        one.ends(Fate.COMMITTED if one.is_commit_asked else Fate.ABORTED)
        self.world.journal.counts["commits" if one.is_commit_asked else "aborts"] += 1
        if one.is_commit_asked and one.input is not None:
            self.world.journal.counts["inputs processed"] += 1
        self._open = None
        if self.version == 2:
            self._use(Producer(answer.producer_id, answer.producer_epoch))
            assert self._producer is not None
            self.books.goes_on(self.id, self._producer, self.world.time.seconds)
        elif self._unanswered:
            self._begin_anew()

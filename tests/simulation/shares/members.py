"""A member of a share group, which may also be slow, dead, confused, or replaced.

It acknowledges what it was delivered: all or some of it, in every type, once or twice, in time or too late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.requests import Violation
from tests.simulation.shares.link import Link, Lost, Server
from tests.simulation.shares.model import ACCEPT, GAP, REJECT, RELEASE, RENEW

from headgate.domain.errors import ErrorCode
from headgate.wire.messages import share_acknowledge as acknowledging
from headgate.wire.messages import share_fetch as fetching
from headgate.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

SESSION_ERRORS = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
BEAT_SECONDS = 5.0
PAUSE_SECONDS = 0.2

Batches = dict[int, list[tuple[int, int, list[int]]]]
"""First and last offset and types of acknowledgements, by partition."""


@dataclass
class Habits:
    """How members behave; one for all of them."""

    is_calm: bool = False
    """They accept all they get, and do nothing else."""
    pace_seconds: float = 0.05


@dataclass
class Session:
    """What a member knows on one connection."""

    link: Link
    epoch: int = 0
    """The next one of the share session."""
    member_epoch: int = 0
    beaten_at: float = 0.0
    held: dict[tuple[int, int], int] = field(default_factory=dict)
    """The delivery counts of what it was delivered and has not acknowledged."""


class ShareMember:
    """One client of a share group, over all lives of the server."""

    def __init__(self, number: int, group_id: str, topic: tuple[str, bytes, int], habits: Habits) -> None:
        """`topic` is its name, id and partition count."""
        self.group_id = group_id
        self._number = number
        self._deaths = 0
        self._topic_name, self._topic_id, self._partition_count = topic
        self._habits = habits
        self._past: list[tuple[int, int]] = []
        """Records that it had some time ago."""
        self._random: Random

    @property
    def name(self) -> str:
        """The member id."""
        return f"{self.group_id}-{self._number}-{self._deaths}"

    async def run(self, server: Server, on_lost: Callable[[str], None]) -> None:
        """Work until the server's life ends, on one connection after another."""
        self._random = server.random
        while not server.is_over:
            link = Link(server, self.name)
            try:
                await self._work(Session(link))
            except Lost:
                pass
            finally:
                link.lose()
                on_lost(link.who)
            if self._random.random() < 0.3:
                self._deaths += 1
            await asyncio.sleep(self._random.random() * PAUSE_SECONDS)

    async def _work(self, session: Session) -> None:
        while True:
            await self._beat_if_due(session)
            await self._act(session)
            await asyncio.sleep(self._random.random() * self._habits.pace_seconds)

    async def _beat_if_due(self, session: Session) -> None:
        now = session.link.server.time.seconds
        if session.member_epoch and now < session.beaten_at + BEAT_SECONDS:
            return
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.name,
            member_epoch=session.member_epoch,
            subscribed_topic_names=None if session.member_epoch else [self._topic_name],
        )
        answer = await session.link.ask(request, 1)
        session.beaten_at = now
        session.member_epoch = 0 if answer.error_code else answer.member_epoch
        if answer.error_code:
            await asyncio.sleep(PAUSE_SECONDS)

    async def _act(self, session: Session) -> None:
        dice = 0.0 if self._habits.is_calm else self._random.random()
        if dice < 0.55:
            await self._fetch(session)
        elif dice < 0.80:
            await self._acknowledge(session, self._some(session))
        elif dice < 0.84:
            await self._acknowledge(session, self._of_the_past())
        elif dice < 0.88:
            await self._renew(session)
        elif dice < 0.91:  # the session is opened again: what it has stays acquired
            session.epoch = 0
            await self._fetch(session)
        elif dice < 0.94:
            await self._close(session)
        elif dice < 0.96:
            await self._mistake(session)
        elif dice < 0.98:  # it is busy, perhaps for longer than its locks last
            await asyncio.sleep(self._random.random() * 3)
        else:  # it is killed
            raise Lost

    # --- requests ---

    async def _fetch(self, session: Session) -> None:
        given: Batches = {}
        if session.epoch and (self._habits.is_calm or self._random.random() < 0.5):
            given = self._all(session) if self._habits.is_calm else self._some(session)
        answer = await session.link.ask(self._fetch_request(session, given), 2)
        if self._is_refused(session, answer):
            return
        session.epoch += 1
        for topic in answer.responses:
            for data in topic.partitions:
                for one in data.acquired_records:
                    for offset in range(one.first_offset, one.last_offset + 1):
                        session.held[data.partition_index, offset] = one.delivery_count
                if data.error_code:
                    await asyncio.sleep(PAUSE_SECONDS)

    def _fetch_request(self, session: Session, given: Batches) -> fetching.ShareFetchRequest:
        indexes = list(range(self._partition_count)) if session.epoch == 0 else list(given)
        random = self._random
        return fetching.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.name,
            share_session_epoch=session.epoch,
            max_wait_ms=random.choice((0, 50, 500)),
            max_bytes=random.choice((1, 200, 1 << 20)),
            max_records=random.choice((1, 3, 100)),
            batch_size=random.choice((1, 3, 100)),
            share_acquire_mode=random.choice((0, 1)),
            topics=[self._topic(fetching, "FetchTopic", "FetchPartition", indexes, given)],
        )

    async def _acknowledge(self, session: Session, given: Batches, *, is_renewing: bool = False) -> None:
        if session.epoch and given:
            answer = await session.link.ask(self._acknowledgement(session.epoch, given, is_renewing), 2)
            if not self._is_refused(session, answer):
                session.epoch += 1

    def _acknowledgement(self, epoch: int, given: Batches, is_renewing: bool = False) -> Any:
        topic = self._topic(acknowledging, "AcknowledgeTopic", "AcknowledgePartition", list(given), given)
        return acknowledging.ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.name,
            share_session_epoch=epoch,
            is_renew_ack=is_renewing,
            topics=[topic],
        )

    def _topic(self, module: Any, topic: str, partition: str, indexes: list[int], given: Batches) -> Any:
        partitions = [
            getattr(module, partition)(
                partition_index=index,
                acknowledgement_batches=[
                    module.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in given.get(index, ())
                ],
            )
            for index in indexes
        ]
        return getattr(module, topic)(topic_id=self._topic_id, partitions=partitions)

    async def _close(self, session: Session) -> None:
        if session.epoch:
            await session.link.ask(self._acknowledgement(-1, self._some(session)), 2)
            self._past += list(session.held)
            session.held.clear()
            session.epoch = 0

    async def _renew(self, session: Session) -> None:
        given = {
            index: [(first, last, [RENEW]) for first, last in runs]
            for index, runs in self._runs(list(session.held)).items()
        }
        await self._acknowledge(session, given, is_renewing=True)

    async def _mistake(self, session: Session) -> None:
        """Send a wrong epoch, which must be refused and change nothing."""
        wrong = session.epoch + self._random.choice((1, 2, 7))
        answer = await session.link.ask(self._acknowledgement(wrong, self._some(session, forget=False)), 2)
        if answer.error_code not in SESSION_ERRORS:
            raise Violation(f"{self.name} sent epoch {wrong}, not {session.epoch}, and got {answer}")

    def _is_refused(self, session: Session, answer: Any) -> bool:
        if answer.error_code in SESSION_ERRORS:
            raise Violation(f"{self.name} sent the next epoch, {session.epoch}, and got {answer}")
        return bool(answer.error_code)

    # --- what is acknowledged ---

    def _some(self, session: Session, *, forget: bool = True) -> Batches:
        """Return acknowledgements of a part of what it has; each record once, mostly."""
        random = self._random
        offsets = [one for one in session.held if random.random() < 0.6]
        if forget and random.random() < 0.95:
            for one in offsets:
                del session.held[one]
            self._past = [*self._past, *offsets][-30:]
        return {
            index: [(first, last, self._types(last - first + 1)) for first, last in runs]
            for index, runs in self._runs(offsets).items()
        }

    def _all(self, session: Session) -> Batches:
        offsets = list(session.held)
        session.held.clear()
        return {
            index: [(first, last, [ACCEPT]) for first, last in runs]
            for index, runs in self._runs(offsets).items()
        }

    def _of_the_past(self) -> Batches:
        if not self._past:
            return {}
        index, offset = self._random.choice(self._past)
        last = offset + self._random.randrange(3)
        return {index: [(offset, last, self._types(last - offset + 1))]}

    def _types(self, count: int) -> list[int]:
        kinds = (ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP)
        if self._random.random() < 0.5:
            return [self._random.choice(kinds)]
        return [self._random.choice(kinds) for _ in range(count)]

    @staticmethod
    def _runs(offsets: list[tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
        """Return the ranges of neighbouring offsets by partition."""
        runs: dict[int, list[tuple[int, int]]] = {}
        for index, offset in sorted(offsets):
            known = runs.setdefault(index, [])
            if known and known[-1][1] == offset - 1:
                known[-1] = (known[-1][0], offset)
            else:
                known.append((offset, offset))
        return runs

"""Test clients of both protocols: the bytes of classic consumers, and clients that behave like libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.core.consumer.support import ConsumerHarness, G, Pairs, beat, pairs
from tests.core.harness import heartbeat, join, leave, sync

from headgate.core.classic.commands import JoinedMember, JoinResult, SyncResult
from headgate.core.contract import Token
from headgate.core.migration.consumer_protocol import read_assignment, read_subscription
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId, TopicName

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 60_000


def subscription(*topics: str, owned: Pairs = frozenset(), version: int = 1) -> bytes:
    """Encode a consumer's subscription; version 1 and later have its owned partitions."""
    data = struct.pack(">hi", version, len(topics)) + b"".join(map(_text, topics)) + struct.pack(">i", -1)
    return data + _partitions(owned) if version else data


def assignment(assigned: Pairs, user_data: bytes | None = None) -> bytes:
    """Encode the assignment of a consumer."""
    size = struct.pack(">i", -1 if user_data is None else len(user_data))
    return struct.pack(">h", 1) + _partitions(assigned) + size + (user_data or b"")


def _partitions(pairs: Pairs) -> bytes:
    topics = sorted({topic for topic, _ in pairs})
    parts = [struct.pack(">i", len(topics))]
    for topic in topics:
        indexes = sorted(index for name, index in pairs if name == topic)
        parts += [_text(topic), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def assigned_pairs(data: bytes) -> Pairs:
    """Return the partitions of an assignment."""
    read = read_assignment(data)
    assert read is not None
    return frozenset((topic, index) for topic, indexes in read.partitions.items() for index in indexes)


@dataclass
class ClassicClient:
    """A consumer of the classic protocol. It has one request at a time, whose answer may take a while.

    `is_cooperative`: it keeps its partitions while it joins, and revokes those that it is not assigned again.
    An eager one revokes all partitions before it joins.
    """

    h: ConsumerHarness
    name: str
    names: tuple[str, ...] = ("t",)
    is_cooperative: bool = False
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    owned: Pairs = frozenset()
    is_joining: bool = True
    joining: Token | None = None
    syncing: Token | None = None
    lives: int = 0
    errors: list[ErrorCode] = field(default_factory=list)
    leads_with: Mapping[TopicName, int] | None = None
    """How large topics were when it assigned them, if it leads: it sees to it when they grow."""

    def step(self) -> None:
        """Go on with what it is waiting for; or join, if it has to; or heartbeat."""
        if self.joining is not None:
            self._take_join(self.h.answers.get(self.joining))
        elif self.syncing is not None:
            self._take_sync(self.h.answers.get(self.syncing))
        elif self.is_joining:
            self._join()
        else:
            self._heartbeat()

    @property
    def is_settled(self) -> bool:
        """Whether it has a generation and waits for nothing."""
        return not self.is_joining and self.joining is None and self.syncing is None

    def forget(self) -> None:
        """It is nobody's member and has nothing."""
        self.member_id, self.generation, self.owned = "", -1, frozenset()
        self.is_joining, self.joining, self.syncing = True, None, None

    def lose_answers(self) -> None:
        """What it waits for will never come: it asks again."""
        if self.joining is not None or self.syncing is not None:
            self.is_joining, self.joining, self.syncing = True, None, None

    def leave(self) -> None:
        """It leaves, if it is a member."""
        if self.member_id:
            self.h.send(leave((self.member_id, None), group_id=G))
        self.forget()

    def _join(self) -> None:
        if not self.is_cooperative:
            self.owned = frozenset()
        self.lives += 1
        self.joining = self.h.send(
            join(
                group_id=G,
                member_id=MemberId(self.member_id),
                new_member_id=MemberId(f"{self.name}.{self.lives}"),
                instance_id=None if self.instance_id is None else InstanceId(self.instance_id),
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                protocols=(("range", subscription(*self.names, owned=self.owned)),),
            )
        )

    def _take_join(self, result: JoinResult | None) -> None:
        if result is None:
            return
        self.joining = None
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
        if result.error:
            self._take_error(result.error)
            return
        self.member_id, self.generation = result.member_id, result.generation
        assignments: list[tuple[MemberId, bytes]] = []
        self.leads_with = None
        if result.leader == self.member_id:
            self.leads_with = {}  # and has to see for itself, if it is told not to assign
            if not result.skip_assignment:
                assignments = list(self._assign(result.members))
        self.syncing = self.h.send(
            sync(
                self.member_id,
                self.generation,
                group_id=G,
                instance_id=self.instance_id,
                assignments=tuple(assignments),
            )
        )

    def _assign(self, members: Iterable[JoinedMember]) -> Iterable[tuple[MemberId, bytes]]:
        """Deal partitions out; what somebody else still has, nobody gets this time."""
        read = {}
        for member in sorted(members):
            subscribed = read_subscription(member.metadata)
            assert subscribed is not None
            read[member.member_id] = subscribed
        given: dict[MemberId, set[tuple[str, int]]] = {one: set() for one in read}
        has = {
            (topic, index): who
            for who, subscribed in read.items()
            for topic, indexes in subscribed.owned.items()
            for index in indexes
        }
        self.leads_with = self._topics()
        for name, count in self.leads_with.items():
            readers = [who for who, subscribed in read.items() if name in subscribed.topics]
            for index in range(count if readers else 0):
                who = readers[index % len(readers)]
                if has.get((name, index), who) == who:
                    given[who].add((name, index))
        return [(who, assignment(frozenset(of))) for who, of in given.items()]

    def _topics(self) -> dict[TopicName, int]:
        return {change.name: change.topic.partition_count for change in self.h.topics.changes if change.topic}

    def _take_sync(self, result: SyncResult | None) -> None:
        if result is None:
            return
        self.syncing = None
        if result.error:
            self._take_error(result.error)
            return
        given = assigned_pairs(result.assignment)
        # A cooperative member that revokes partitions joins again to acknowledge it.
        self.is_joining = self.is_cooperative and not self.owned <= given
        self.owned = given

    def _heartbeat(self) -> None:
        error = self.h.ask(
            heartbeat(self.member_id, self.generation, group_id=G, instance_id=self.instance_id)
        )
        if error:
            self._take_error(error)
        elif self.leads_with is not None and self.leads_with != self._topics():
            self.is_joining = True

    def _take_error(self, error: ErrorCode) -> None:
        self.errors.append(error)
        self.is_joining = True
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED):
            return
        self.owned, self.generation = frozenset(), -1
        if error is not ErrorCode.ILLEGAL_GENERATION:
            assert error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID), error
            self.member_id = ""

    def commit(self, **more: Any) -> ErrorCode:
        """Commit everything it owns; the error."""
        return self.h.commit_as(self.member_id, self.generation, *self.owned, **more)


@dataclass
class NewClient:
    """A consumer of the consumer protocol. It takes one more heartbeat than necessary to revoke
    partitions.
    """

    h: ConsumerHarness
    name: str
    names: tuple[str, ...] = ("t",)
    instance_id: str | None = None
    epoch: int = 0
    owned: Pairs = frozenset()
    told: Pairs = frozenset()
    lives: int = 0

    @property
    def member_id(self) -> str:
        """A new one for each life."""
        return f"{self.name}.{self.lives}"

    @property
    def is_settled(self) -> bool:
        """Whether it is a member and has what it is to have."""
        return self.epoch > 0 and self.owned == self.told

    @property
    def generation(self) -> int:
        """Its epoch, as commits name it."""
        return self.epoch

    def _instance(self) -> dict[str, Any]:
        return {} if self.instance_id is None else {"instance_id": InstanceId(self.instance_id)}

    def step(self) -> None:
        """Heartbeat, or join."""
        if self.epoch == 0:
            result = self.h.join(self.member_id, *self.names, **self._instance())
        else:
            result = self.h.beat(self.member_id, self.epoch, reported=self.owned, **self._instance())
            self.owned &= self.told
        if result.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            return
        if result.error:
            assert result.error in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), result
            self.forget()
            return
        self.epoch = result.member_epoch
        if result.assigned is not None:
            self.told = pairs(result.assigned)
        if self.owned <= self.told:
            self.owned = self.told

    def forget(self) -> None:
        """It is nobody's member and has nothing."""
        self.epoch, self.owned, self.told = 0, frozenset(), frozenset()
        self.lives += 1

    def leave(self) -> None:
        """It leaves, if it is a member."""
        if self.epoch:
            self.h.ask(beat(self.member_id, -1, **self._instance()))
        self.forget()

    def commit(self, **more: Any) -> ErrorCode:
        """Commit everything it owns; the error."""
        return self.h.commit_as(self.member_id, self.epoch, *self.owned, **more)


Anyone = ClassicClient | NewClient


def play(h: ConsumerHarness, *members: Anyone, rounds: int = 40) -> None:
    """Let all of them step, with time between, until all have the same partitions as a round before."""
    before = None
    for _ in range(rounds):
        for member in members:
            member.step()
        h.advance(1_000)
        now = [(member.owned, member.is_settled) for member in members]
        if now == before and all(is_settled for _, is_settled in now):
            return
        before = now
    raise AssertionError(f"not settled after {rounds} rounds: {before}")

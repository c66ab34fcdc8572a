"""A consumer of the classic protocol in a group with members of both protocols.

Unlike `tests.simulation.clients.Member` it sends the same bytes as real consumers, so that the server can
take over a leader's assignment, and a leader the server's. An eager consumer revokes all partitions before it
joins. A cooperative one keeps its partitions, and rejoins after a revocation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.core.migration.support import assigned_pairs, assignment, subscription
from tests.simulation.clients import Client
from tests.simulation.requests import RETRIABLE, error_of
from tests.simulation.surroundings import READ_TOPICS, SurroundingsView

from headgate.core.classic.commands import (
    Heartbeat,
    JoinedMember,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from headgate.core.migration.consumer_protocol import read_subscription
from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicName

NamedPart = tuple[str, int]
"""A partition by its topic's name."""


class ClassicConsumer(Client):
    """One client of a group of both protocols."""

    def __init__(self, surroundings: SurroundingsView, group_id: str, session_seconds: float) -> None:
        super().__init__(surroundings.network)
        self._surroundings = surroundings
        self.group_id = GroupId(group_id)
        self._session_seconds = session_seconds
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._is_cooperative = self.random.random() < 0.5
        self.names = self.random.choice((READ_TOPICS[:1], READ_TOPICS[:2], READ_TOPICS))
        self._forget()

    def _forget(self) -> None:
        """Reset the state: no membership and no partitions."""
        self.member_id, self.generation = MemberId(""), -1
        self.owned: frozenset[NamedPart] = frozenset()
        self._is_joining = True
        self._joined: Any = None
        self._led: dict[TopicName, int] | None = None
        """The partition counts of topics when it assigned them."""

    def on_connected(self) -> None:
        """Rejoin: the pending response is lost."""
        self._is_joining = self._is_joining or self._joined is not None
        self._joined = None

    # --- actions ---

    def act(self) -> None:
        """Join, sync, or heartbeat."""
        if self._is_joining:
            self._join()
        elif self._joined is not None:
            self._sync()
        elif self._led is not None and self._led != self._surroundings.partition_counts():
            self._is_joining = True
            self.soon()
        elif self._surroundings.is_calm:
            self._heartbeat()
        else:
            self._live()

    def _live(self) -> None:
        dice = self.random.random()
        if dice < 0.65:
            self._heartbeat()
        elif dice < 0.88:
            self._commit()
        elif dice < 0.94:
            leaving = LeavingMember(self.member_id, None)
            self._forget()
            self.ask(
                self.group_id, LeaveGroup(group_id=self.group_id, members=(leaving,)), lambda _: self.soon()
            )
        elif dice < 0.96:
            self.soon(3 * self._session_seconds)
        elif dice < 0.98:
            self._begin_anew()
            self.soon()
        else:
            self.connect()

    def _join(self) -> None:
        if not self._is_cooperative:
            self.owned = frozenset()
        milliseconds = int(1000 * self._session_seconds)
        command = JoinGroup(
            group_id=self.group_id,
            member_id=self.member_id,
            new_member_id=MemberId(f"classic-{self.network.next_number()}"),
            client_id="",
            client_host="",
            session_timeout_ms=milliseconds,
            rebalance_timeout_ms=milliseconds,
            protocol_type="consumer",
            protocols=(("range", subscription(*self.names, owned=self.owned)),),
        )
        self.ask(self.group_id, command, self._on_join)

    def _on_join(self, result: Any) -> None:
        error = error_of(result)
        if error is ErrorCode.NONE:
            self.member_id, self.generation = result.member_id, result.generation
            self._joined, self._is_joining = result, False
            self.soon(0.01)
            return
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
        self._after(error)

    def _sync(self) -> None:
        given: tuple[tuple[MemberId, bytes], ...] = ()
        self._led = None
        if self._joined.leader == self.member_id and not self._joined.skip_assignment:
            given = tuple(self._assign(self._joined.members))
        command = SyncGroup(
            group_id=self.group_id,
            member_id=self.member_id,
            generation=self.generation,
            assignments=given,
        )
        self.ask(self.group_id, command, self._on_sync)

    def _assign(self, members: Iterable[JoinedMember]) -> Iterable[tuple[MemberId, bytes]]:
        """Distribute partitions; leave out those that another member still owns."""
        read = {member.member_id: read_subscription(member.metadata) for member in sorted(members)}
        given: dict[MemberId, set[NamedPart]] = {one: set() for one in read}
        has = {
            (topic, index): who
            for who, said in read.items()
            if said is not None
            for topic, indexes in said.owned.items()
            for index in indexes
        }
        self._led = self._surroundings.partition_counts()
        for name, count in self._led.items():
            readers = [who for who, said in read.items() if said is not None and name in said.topics]
            for index in range(count if readers else 0):
                who = readers[index % len(readers)]
                if has.get((name, index), who) == who:
                    given[who].add((name, index))
        return [(who, assignment(frozenset(parts))) for who, parts in given.items()]

    def _on_sync(self, result: Any) -> None:
        self._joined = None
        error = error_of(result)
        if error is ErrorCode.NONE:
            given = assigned_pairs(result.assignment)
            revoked = self.owned - given if self._is_cooperative else frozenset()
            self._is_joining = bool(revoked)
            commit = self._commit_of(revoked) if self.random.random() < 0.7 else None
            self.owned = given
            if commit is not None:  # as clients do in a revocation, in the generation that revokes
                self.ask(self.group_id, commit, lambda result: self._after(error_of(result)))
                return
        self._after(error)

    def _heartbeat(self) -> None:
        command = Heartbeat(group_id=self.group_id, member_id=self.member_id, generation=self.generation)
        self.ask(self.group_id, command, lambda error: self._after(error_of(error)))

    def _commit(self) -> None:
        command = self._commit_of(self.owned)
        if command is None:
            self._heartbeat()
            return
        self.ask(self.group_id, command, lambda result: self._after(error_of(result)))

    def _commit_of(self, parts: frozenset[NamedPart]) -> CommitOffsets | None:
        """Return a commit of these partitions in its generation; None if there are none."""
        if not parts:
            return None
        number = self.network.next_number()
        topics: dict[TopicName, list[OffsetToCommit]] = {}
        for name, index in sorted(parts):
            topics.setdefault(TopicName(name), []).append(OffsetToCommit(index, number, -1, ""))
        return CommitOffsets(
            self.group_id, list(topics.items()), member_id=self.member_id, generation=self.generation
        )

    def _after(self, error: ErrorCode) -> None:
        """Continue after an answer."""
        if error in RETRIABLE:
            self._is_joining = self._is_joining or self._joined is not None
            self._joined = None
            self.soon(0.5)
            return
        if error is not ErrorCode.NONE:
            self._is_joining, self._joined = True, None
            if error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED):
                self.owned, self.generation = frozenset(), -1
                self.member_id = self.member_id if error is ErrorCode.ILLEGAL_GENERATION else MemberId("")
        is_settled = not self._is_joining and self._joined is None
        self.soon(0.4 * self._session_seconds if is_settled else None)

"""The clients of the simulation: tools that commit and fetch, and members of groups.

Each performs one action after another, on one connection. If a connection is lost, the answers are lost, but
not the requests; the client continues on a new connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from struct import pack
from typing import Any, Protocol

import numpy as np
from tests.simulation.group_model import Assignment
from tests.simulation.requests import RETRIABLE, OnResult, each_to_commit, error_of, expected_at

from headgate.core.classic.commands import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from headgate.core.commands import DeleteGroup
from headgate.core.offsets.commands import (
    NOTHING_COMMITTED,
    CommitOffsets,
    CommitResult,
    DeleteOffsets,
    ExpectedOffsets,
    FetchedColumns,
    FetchedOffsets,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
    ToCommit,
    expected_offsets,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicName

TOPICS = (TopicName("flights"), TopicName("délais"))
METADATA = ("", "", "m", "position 17", "ünï ✈", "x" * 60)
"""The last one exceeds the simulated broker's limit."""
METADATA_LIMIT = 50


class Network(Protocol):
    """What a client needs of the simulation."""

    random: Random
    partition_count: int
    pace_seconds: float

    def send(self, group_id: str, command: Any, on_result: OnResult) -> None:
        """Send a request; the answer arrives after the latency of both directions, or never."""
        ...

    def later(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Run an action later, unless the server's machine is down by then."""
        ...

    def next_number(self) -> int:
        """Return a number that was not used before."""
        ...


class Client:
    """One connection and its actions."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.random = network.random
        self._connection = 0

    def connect(self) -> None:
        """Open a new connection; answers on the old one are lost."""
        self._connection += 1
        self.on_connected()
        self.soon()

    def on_connected(self) -> None:
        """Note that pending answers will not arrive."""

    def soon(self, longest_seconds: float | None = None) -> None:
        """Act again after a while, if the connection is still the same."""
        longest = self.network.pace_seconds if longest_seconds is None else longest_seconds
        connection = self._connection
        self.network.later(
            self.random.random() * longest, lambda: self.act() if connection == self._connection else None
        )

    def rest(self, seconds: float) -> None:
        """Do nothing for this time, then continue on a new connection."""
        self._connection += 1
        self.on_connected()
        connection = self._connection
        self.network.later(seconds, lambda: self.act() if connection == self._connection else None)

    def ask(self, group_id: str, command: Any, on_result: OnResult) -> None:
        """Send a request on this connection."""
        connection = self._connection
        self.network.send(
            group_id, command, lambda result: on_result(result) if connection == self._connection else None
        )

    def act(self) -> None:
        """Perform the next action."""
        raise NotImplementedError


def some_commit(client: Client, group_id: str) -> CommitOffsets:
    """Return a commit of one to a few hundred partitions, identifiable by its offsets."""
    random, network = client.random, client.network
    number = network.next_number()
    metadata = random.choice(METADATA)
    topics: list[tuple[TopicName, list[OffsetToCommit] | OffsetColumns]] = []
    for topic in random.sample(TOPICS, random.choice((1, 1, 2))):
        width = min(network.partition_count, random.choice((1, 1, 1, 2, 7, 30, 300)))
        partitions = random.sample(range(network.partition_count), width)
        if width >= 7 and random.random() < 0.7:
            indexes = np.array(partitions, np.int64)
            offsets, epochs = np.full(width, number), np.full(width, random.randrange(-1, 3))
            texts = metadata if random.random() < 0.6 else random.choices(METADATA, k=width)
            topics.append((topic, OffsetColumns(indexes, offsets, epochs, texts)))
        else:
            odd = random.randrange(width)
            each = [
                OffsetToCommit(
                    partition,
                    number,
                    random.randrange(-1, 3),
                    metadata if at != odd else random.choice(METADATA),
                )
                for at, partition in enumerate(partitions)
            ]
            topics.append((topic, each))
    retention_ms = random.choice((1000, 30_000)) if random.random() < 0.05 else -1
    return CommitOffsets(
        GroupId(group_id),
        topics,
        retention_ms=retention_ms,
        knows_group_not_found=random.random() < 0.5,
    )


def some_condition(client: Client, command: CommitOffsets, known: Mapping[tuple[str, int], int]) -> None:
    """Add conditions to a commit: offsets as last seen, or others."""
    command.retention_ms = -1  # no version has both
    expected: list[ExpectedOffsets] = []
    for topic, partitions in command.topics:
        is_wide = isinstance(partitions, OffsetColumns)
        numbers = [one.partition for one in each_to_commit(partitions)]
        seen = [known.get((topic, number), NOTHING_COMMITTED) for number in numbers]
        if client.random.random() < 0.1:
            seen[client.random.randrange(len(seen))] = 1
        if is_wide and client.random.random() < 0.5:
            expected.append(ExpectedOffsets(np.arange(len(seen)), np.array(seen)))
        else:
            some = client.random.sample(range(len(seen)), client.random.randrange(len(seen) + 1))
            expected.append(expected_offsets({index: seen[index] for index in some}))
    command.expected = expected
    if client.random.random() < 0.3:
        command.topics = [
            (topic, _some_removed(client.random, partitions, conditions))
            for (topic, partitions), conditions in zip(command.topics, expected, strict=True)
        ]


def _some_removed(random: Random, partitions: ToCommit, conditions: ExpectedOffsets) -> ToCommit:
    """Set the offset of some partitions with a condition to -1, which removes it; keep the first one."""
    each = each_to_commit(partitions)
    is_gone = [
        at > 0 and expected_at(conditions, at) is not None and random.random() < 0.5
        for at in range(len(each))
    ]
    offsets = [NOTHING_COMMITTED if gone else one.offset for gone, one in zip(is_gone, each, strict=True)]
    if isinstance(partitions, OffsetColumns):
        return partitions._replace(offsets=np.array(offsets))
    return [one._replace(offset=offset) for one, offset in zip(each, offsets, strict=True)]


def some_fetch(client: Client, group_id: str) -> FetchOffsets:
    """Return a fetch of some partitions, or of all."""
    random, network = client.random, client.network
    if random.random() < 0.4:
        return FetchOffsets(GroupId(group_id), None)
    count = network.partition_count
    topics = [
        (topic, sorted(random.sample(range(count), min(count, random.choice((1, 2, 10, 100))))))
        for topic in TOPICS
    ]
    return FetchOffsets(GroupId(group_id), topics)


class Tool(Client):
    """Commits, fetches and deletes in any group, sometimes several requests at the same time."""

    def __init__(self, network: Network, group_ids: list[str]) -> None:
        super().__init__(network)
        self._group_ids = group_ids
        self._awaited = 0
        self._known: dict[str, dict[tuple[str, int], int]] = {one: {} for one in group_ids}
        """The offsets that this tool saw last, by group."""

    def on_connected(self) -> None:
        """Note that no answer is pending on the new connection."""
        self._awaited = 0

    def act(self) -> None:
        """Send one request, or several in a row."""
        self._awaited = self.random.choice((1, 1, 1, 2, 5))
        for _ in range(self._awaited):
            group_id = self.random.choice(self._group_ids)
            command = self._command(group_id)
            self.ask(group_id, command, partial(self._on_result, command))

    def _command(self, group_id: str) -> Any:
        dice = self.random.random()
        if dice < 0.55:
            command = some_commit(self, group_id)
            if self.random.random() < 0.25:
                some_condition(self, command, self._known[group_id])
            return command
        if dice < 0.92:
            return some_fetch(self, group_id)
        if dice < 0.98:
            count = self.network.partition_count
            partitions = self.random.sample(range(count), min(count, self.random.choice((1, 5, 50))))
            topics = self.random.sample(TOPICS, self.random.choice((1, 2)))
            return DeleteOffsets(GroupId(group_id), [(topic, partitions) for topic in topics])
        return DeleteGroup(GroupId(group_id))

    def _on_result(self, command: Any, result: Any) -> None:
        self._learn(command, result)
        self._awaited -= 1
        if not self._awaited:
            self.soon()

    def _learn(self, command: Any, result: Any) -> None:
        """Remember the offsets in a result."""
        known = self._known[command.group_id]
        if isinstance(result, FetchedOffsets):
            for topic, partitions in result.topics:
                known.update({(topic, partition): offset for partition, offset in offsets_in(partitions)})
        elif isinstance(result, CommitResult) and not result.error:
            for (number, index), offset in (result.current or {}).items():
                topic, partitions = command.topics[number]
                known[topic, each_to_commit(partitions)[index].partition] = offset


def offsets_in(partitions: Any) -> list[tuple[int, int]]:
    """Return fetched partitions with their offsets."""
    if isinstance(partitions, FetchedColumns):
        return list(zip(partitions.partitions.tolist(), partitions.offsets.tolist(), strict=True))
    return [(one, NOTHING_COMMITTED if stored is None else stored.offset) for one, stored in partitions]


class Member(Client):
    """A consumer of a group, which may also be slow, silent, dead, or replaced."""

    def __init__(self, network: Network, group_id: str, longest_session_seconds: float) -> None:
        super().__init__(network)
        self._group_id = GroupId(group_id)
        self._longest_session = longest_session_seconds
        self._instance_id: InstanceId | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Become another member: dynamic, or one of a few static ones, whose instance id may be in use."""
        is_static = self.random.random() < 0.4
        self._instance_id = InstanceId(f"static-{self.random.randrange(4)}") if is_static else None
        self._begin_as_before()

    def _begin_as_before(self) -> None:
        """Restart as the same client without memory; a static member keeps its instance id."""
        self._member_id = MemberId("")
        self._generation = -1
        self._joined: Any = None
        self._is_assigned = False
        self._session_ms = int(1000 * self._longest_session * (0.3 + 0.7 * self.random.random()))
        self._rebalance_ms = int(1000 * self._longest_session * (0.5 + 0.5 * self.random.random()))
        self._must_know_member_id = self.random.random() < 0.8
        self._can_skip_assignment = self.random.random() < 0.6
        user_data = str(self.network.next_number()).encode()
        names = b"".join(pack(">h", len(one.encode())) + one.encode() for one in TOPICS)
        self._metadata = pack(">hi", 1, len(TOPICS)) + names + pack(">i", len(user_data)) + user_data

    def act(self) -> None:
        """Perform the next action of a member in this state."""
        if self._joined is None:
            self._join()
        elif not self._is_assigned:
            self._sync()
        else:
            self._live()

    def _join(self) -> None:
        command = JoinGroup(
            group_id=self._group_id,
            member_id=self._member_id,
            new_member_id=MemberId(f"member-{self.network.next_number()}"),
            instance_id=self._instance_id,
            client_id="simulated",
            client_host="/127.0.0.1",
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            protocol_type="consumer",
            protocols=(("range", self._metadata), ("roundrobin", self._metadata)),
            must_know_member_id=self._must_know_member_id,
            can_skip_assignment=self._can_skip_assignment,
        )
        self.ask(self._group_id, command, self._on_join)

    def _on_join(self, result: Any) -> None:
        error = error_of(result)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = result.member_id
        elif not error:
            self._joined, self._is_assigned = result, False
            self._member_id, self._generation = result.member_id, result.generation
        self._after(error)

    def _sync(self) -> None:
        assignments: tuple[tuple[MemberId, bytes], ...] = ()
        if self._joined.leader == self._member_id and not self._joined.skip_assignment:
            attempt = self.network.next_number()
            assignments = tuple(
                (one.member_id, Assignment(self._generation, attempt, one.member_id).encode())
                for one in self._joined.members
            )
        command = SyncGroup(
            group_id=self._group_id,
            member_id=self._member_id,
            generation=self._generation,
            instance_id=self._instance_id,
            protocol_type="consumer",
            protocol_name=self._joined.protocol_name,
            assignments=assignments,
        )
        self.ask(self._group_id, command, self._on_sync)

    def _on_sync(self, result: Any) -> None:
        self._is_assigned = not error_of(result)
        self._after(error_of(result))

    def _live(self) -> None:
        dice = self.random.random()
        if self._instance_id is not None and dice < 0.08:  # it restarts
            self._begin_as_before()
            self.soon()
        elif dice < 0.60:
            command: Any = Heartbeat(
                group_id=self._group_id,
                member_id=self._member_id,
                generation=self._generation,
                instance_id=self._instance_id,
            )
            self.ask(self._group_id, command, lambda error: self._after(error_of(error)))
        elif dice < 0.80:
            command = replace(
                some_commit(self, self._group_id),
                member_id=self._member_id,
                generation=self._generation,
                instance_id=self._instance_id,
            )
            self.ask(self._group_id, command, lambda result: self._after(error_of(result)))
        elif dice < 0.93:
            self.ask(
                self._group_id, some_fetch(self, self._group_id), lambda result: self._after(ErrorCode.NONE)
            )
        elif dice < 0.95:
            leaving = LeavingMember(self._member_id, self._instance_id)
            if self._instance_id is not None and self.random.random() < 0.5:
                leaving = LeavingMember(
                    MemberId(""), self._instance_id
                )  # as in a removal by an administrator
            command = LeaveGroup(group_id=self._group_id, members=(leaving,))
            self.ask(self._group_id, command, lambda result: self._on_left())
        elif dice < 0.97:  # it wants a new assignment
            self._joined = None
            self.soon()
        elif dice < 0.98:  # it stops for a while and continues
            self.soon(3 * self._longest_session)
        elif dice < 0.99:  # it dies without a leave, and another member replaces it
            self._begin_anew()
            self.soon()
        else:
            self.connect()

    def _on_left(self) -> None:
        if self.random.random() < 0.5:
            self._begin_anew()  # otherwise it continues as a member
        self.soon()

    def _after(self, error: ErrorCode) -> None:
        """Continue after an answer: unchanged, in the next generation, or as a new member."""
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._begin_anew()
        elif error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._joined = None
        elif error in RETRIABLE:
            self.soon(0.5)
            return
        elif error not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self._begin_anew()
        self.soon(0.3 * self._session_ms / 1000 if self._is_assigned and self._joined else None)

"""A classic group with random clients: the guarantees to clients always hold.

Clients of three kinds (dynamic old, dynamic new, static) join, sync, heartbeat, commit, leave, stop and
return, time passes, and the shard crashes. The harness checks replay at every step; the rules here are about
answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.core.harness import LOADS_FROM, NONE, RANDOM_LIVES, Harness, heartbeat, join, leave, sync
from tests.core.kinds_of_shard import classic_groups

from headgate.core.classic.context import NEW_MEMBER_TIMEOUT_MS
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId

CLIENTS = st.integers(0, 4)


@dataclass
class Client:
    """The state of one client, which knows only its answers."""

    number: int
    member_id: str = ""
    generation: int = -1
    joining: int | None = None
    syncing: int | None = None
    is_leader: bool = False
    members: list[str] = field(default_factory=list)

    @property
    def instance_id(self) -> str | None:
        """Clients 3 and 4 are static."""
        return f"instance-{self.number}" if self.number >= 3 else None


class ClassicGroupMachine(RuleBasedStateMachine):
    """One group, five clients."""

    def __init__(self) -> None:
        super().__init__()
        self.h = Harness(group_initial_rebalance_delay_ms="1000", group_max_size="4")
        self.clients = [Client(number) for number in range(5)]
        self.parked_since: dict[int, int] = {}
        self.next_member = 0
        self.assigned: dict[tuple[int, str], bytes] = {}
        """What a member was given in a generation."""
        self.led: dict[int, set[str]] = {}
        """Who was told to lead a generation since the last crash."""
        self.highest_generation = 0

    # --- what clients do ---

    @rule(
        number=CLIENTS,
        protocols=st.sampled_from(["r", "rs", "sr", "s"]),
        rebalance_timeout_ms=st.sampled_from([5_000, 30_000]),
        is_old=st.booleans(),
        restarts=st.booleans(),
    )
    def join(
        self, number: int, protocols: str, rebalance_timeout_ms: int, is_old: bool, restarts: bool
    ) -> None:
        client = self.clients[number]
        self.next_member += 1
        token = self.h.send(
            join(
                member_id="" if restarts else client.member_id,
                new_member_id=f"m{self.next_member}",
                instance_id=client.instance_id,
                session_timeout_ms=6_000,
                rebalance_timeout_ms=rebalance_timeout_ms,
                protocols=tuple((name, b"") for name in protocols),
                must_know_member_id=not is_old,
                can_skip_assignment=not is_old,
            )
        )
        client.joining = token
        self.parked_since[token] = self.h.now
        self.collect()

    @rule(number=CLIENTS, is_lazy=st.booleans())
    def sync(self, number: int, is_lazy: bool) -> None:
        client = self.clients[number]
        members = client.members if client.is_leader else []
        assignments = tuple(
            (one, f"{client.generation}:{one}".encode()) for one in members[: 1 if is_lazy else None]
        )
        token = self.h.send(
            sync(
                client.member_id,
                client.generation,
                instance_id=client.instance_id,
                assignments=assignments,
            )
        )
        client.syncing = token
        self.parked_since[token] = self.h.now
        self.collect()

    @rule(number=CLIENTS)
    def beat(self, number: int) -> None:
        client = self.clients[number]
        error = self.h.ask(heartbeat(client.member_id, client.generation, instance_id=client.instance_id))
        assert error in (
            NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        )
        self.collect()

    @rule(number=CLIENTS, offset=st.integers(0, 99))
    def commit(self, number: int, offset: int) -> None:
        client = self.clients[number]
        group = self.group()
        result = self.h.commit(
            "g",
            offset=offset,
            member_id=client.member_id,
            generation=client.generation,
            instance_id=client.instance_id,
        )
        if result.error == NONE and client.generation >= 0:
            assert group is not None
            assert client.generation == group.generation
            assert client.member_id in group.members
            assert self.h.offset("g") == offset

    @rule(number=CLIENTS)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        self.h.ask(leave((client.member_id, client.instance_id)))
        self.collect()

    @rule(duration_ms=st.sampled_from([100, 1_000, 3_000, 6_000, 40_000]))
    def wait(self, duration_ms: int) -> None:
        self.h.advance(duration_ms)
        self.collect()

    @rule(lateness_ms=st.sampled_from([1, 300, 5_000, 120_000]))
    def stall(self, lateness_ms: int) -> None:
        """Delay the next tick."""
        self.h.be_late([lateness_ms])

    @rule(loads_from=LOADS_FROM)
    def crash(self, loads_from: Any) -> None:
        self.h.loads_from = loads_from
        self.h.reload()
        self.led.clear()
        self.highest_generation = 0
        for client in self.clients:
            client.joining = client.syncing = None

    # --- what they hear ---

    def collect(self) -> None:
        """Deliver every client's answers."""
        for client in self.clients:
            if client.joining in self.h.answers:
                self.on_join(client, self.h.answers[client.joining])
                client.joining = None
            if client.syncing in self.h.answers:
                self.on_sync(client, self.h.answers[client.syncing])
                client.syncing = None

    def on_join(self, client: Client, result: Any) -> None:
        if result.error == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = result.member_id
        elif result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.generation = "", -1
        elif result.error == NONE:
            client.member_id, client.generation = result.member_id, result.generation
            client.is_leader = result.leader == result.member_id and not result.skip_assignment
            client.members = [member.member_id for member in result.members]
            assert result.protocol_type == "consumer"
            assert result.protocol_name in ("r", "s")
            if client.is_leader:
                assert result.member_id in client.members
                self.led.setdefault(result.generation, set()).add(result.member_id)

    def on_sync(self, client: Client, result: Any) -> None:
        if result.error == NONE and result.assignment:
            generation, _, member_id = result.assignment.decode().partition(":")
            assert int(generation) <= client.generation
            if client.instance_id is None:
                assert member_id == client.member_id

    def group(self) -> ClassicGroup | None:
        return classic_groups(self.h.shard).look(GroupId("g"))

    # --- what always holds ---

    @invariant()
    def generations_never_decrease(self) -> None:
        """Except after a crash, which loses unfinished generations."""
        group = self.group()
        if group is not None:
            assert group.generation >= self.highest_generation
            self.highest_generation = group.generation

    @invariant()
    def a_generation_has_one_leader_at_a_time(self) -> None:
        """Until the assignment is sent, only the leader was told to lead."""
        group = self.group()
        if group is not None:
            for member_id in self.led.get(group.generation, set()):
                assert member_id == group.leader or group.state is not ClassicState.COMPLETING_REBALANCE

    @invariant()
    def counters_agree_with_the_members(self) -> None:
        """The counters kept with the members are correct."""
        group = self.group()
        if group is None:
            return
        waiting = sum(member.awaiting_join is not None for member in group.members.values())
        assert group.awaiting_joins == waiting
        for name in ("r", "s"):
            supporting = sum(any(one == name for one, _ in m.protocols) for m in group.members.values())
            assert group.protocol_support.get(name, 0) == supporting
        static = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
        assert group.instances == static
        assert set(group.pending_syncs) <= set(group.members)
        assert not set(group.pending_joins) & set(group.members)
        assert (group.leader in group.members) == bool(group.members)
        if group.state is not ClassicState.PREPARING_REBALANCE:  # all may leave before it is complete
            assert bool(group.members) == (group.state is not ClassicState.EMPTY)
        assert len(group.members) <= 4 or group.state is ClassicState.PREPARING_REBALANCE

    @invariant()
    def every_unanswered_request_is_parked_once(self) -> None:
        """Every request without an answer is parked by exactly one member."""
        group = self.group()
        held: list[int] = []
        for member in group.members.values() if group else ():
            held += [one for one in (member.awaiting_join, member.awaiting_sync) if one is not None]
        assert sorted(held) == sorted(self.h.asked - set(self.h.answers))

    @invariant()
    def parked_requests_are_answered_in_time(self) -> None:
        """At the latest after the longest duration of a rebalance."""
        for token in self.h.asked - set(self.h.answers):
            assert self.h.now - self.parked_since[token] <= NEW_MEMBER_TIMEOUT_MS + 60_000

    @invariant()
    def a_group_with_members_has_a_deadline(self) -> None:
        """So has one with parked requests."""
        group = self.group()
        if group is not None and group.members:
            assert self.h.shard.next_deadline() is not None

    def teardown(self) -> None:
        """After all clients stop, all requests are answered, and the group is empty."""
        self.h.advance(3 * NEW_MEMBER_TIMEOUT_MS)
        assert not self.h.asked - set(self.h.answers)
        group = self.group()
        assert group is None or group.state is ClassicState.EMPTY


ClassicGroupMachine.TestCase.settings = RANDOM_LIVES
TestClassicGroup = ClassicGroupMachine.TestCase

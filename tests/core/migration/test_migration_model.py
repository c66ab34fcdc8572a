"""A group under random members of both protocols, late commits and crashes: what members rely on holds.

Six members, two of them static, take steps when they like to, leave, are killed, change their protocol,
commit; commits are delivered late; time passes; topics grow; the shard crashes. Classic ones are eager or
cooperative, all of them. The harness checks at every step that a replay leads to the same state, and
`check_invariants` the epochs and the single owner. Here it is about who may commit what, and about everything
being read in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.core.consumer.support import ConsumerHarness, G, Pairs, check_invariants, topics
from tests.core.migration.support import SESSION_TIMEOUT_MS, Anyone, ClassicClient, NewClient

from headgate.domain.errors import ErrorCode

MEMBERS = st.integers(0, 5)
STATIC = (4, 5)
ROUNDS = 30
"""Of a second each: by then who was killed is gone, and the others have come to terms."""


@dataclass(frozen=True)
class LateCommit:
    """A commit that is on its way: who it is of, by what, and for what."""

    member_id: str
    generation: int
    owned: Pairs


@dataclass
class Readers:
    """Who has begun to read each partition last, by the id it had."""

    last: dict[tuple[str, int], str] = field(default_factory=dict)

    def look(self, member: Anyone, before: Pairs) -> None:
        """Take note of what a member has that it had not."""
        for pair in member.owned - before:
            self.last[pair] = member.member_id


class MigrationMachine(RuleBasedStateMachine):
    """One group, six members."""

    def __init__(self) -> None:
        super().__init__()
        self.h = ConsumerHarness()
        self.members: list[Anyone] = []
        self.late: list[LateCommit] = []
        self.readers = Readers()
        self.incarnations = 0
        self.partitions = 4
        self.is_cooperative = False

    @initialize(
        policy=st.sampled_from(["bidirectional", "upgrade"]),
        interval_ms=st.sampled_from([0, 1_000]),
        is_cooperative=st.booleans(),
        is_new=st.booleans(),
    )
    def begin(self, policy: str, interval_ms: int, is_cooperative: bool, is_new: bool) -> None:
        """All members are there and of one kind, none has said anything."""
        self.h = ConsumerHarness(
            {"t": self.partitions, "u": 3},
            group_consumer_migration_policy=policy,
            group_consumer_assignment_interval_ms=str(interval_ms),
            group_consumer_session_timeout_ms=str(SESSION_TIMEOUT_MS),
            group_initial_rebalance_delay_ms="0",
        )
        self.is_cooperative = is_cooperative
        self.members = [self.incarnation(number, is_new=is_new) for number in range(6)]

    def incarnation(self, number: int, *, is_new: bool) -> Anyone:
        """Member `number`, started anew; two are static, two others read more topics."""
        self.incarnations += 1
        name = f"m{number}.{self.incarnations}"
        names = ("t", "u") if number % 3 == 0 else ("t",)
        instance_id = f"i{number}" if number in STATIC else None
        if is_new:
            return NewClient(self.h, name, names, instance_id)
        return ClassicClient(self.h, name, names, self.is_cooperative, instance_id)

    def step_of(self, member: Anyone) -> None:
        before = member.owned
        member.step()
        self.readers.look(member, before)
        group = self.h.shard.consumer.find(G)
        if group is not None:
            check_invariants(group)

    # --- what members do ---

    @rule(number=MEMBERS, times=st.integers(1, 4))
    def step(self, number: int, times: int) -> None:
        for _ in range(times):
            self.step_of(self.members[number])

    @rule(rounds=st.integers(1, 6))
    def all_step(self, rounds: int) -> None:
        for _ in range(rounds):
            for member in self.members:
                self.step_of(member)
            self.h.advance(500)

    @rule(number=MEMBERS, is_new=st.booleans(), says_farewell=st.booleans())
    def restart(self, number: int, is_new: bool, says_farewell: bool) -> None:
        """Perhaps with the other protocol; without a farewell it takes a session until that is seen."""
        if says_farewell:
            self.members[number].leave()
        self.members[number] = self.incarnation(number, is_new=is_new)

    @rule(order=st.permutations(range(6)), is_new=st.booleans(), rounds=st.integers(0, 3))
    def roll(self, order: list[int], is_new: bool, rounds: int) -> None:
        """One after the other is restarted with one protocol, though it may have it already."""
        for number in order:
            self.restart(number, is_new, says_farewell=True)
            self.all_step(rounds)

    @rule(number=MEMBERS)
    def fall_silent(self, number: int) -> None:
        """For longer than a session, while the others go on; what it waited for it never hears."""
        silent = self.members[number]
        if isinstance(silent, ClassicClient):
            silent.lose_answers()
        for _ in range(1 + SESSION_TIMEOUT_MS // 1_000):
            for other, member in enumerate(self.members):
                if other != number:
                    self.step_of(member)
            self.h.advance(1_000)

    # --- commits ---

    @rule(number=MEMBERS)
    def commit(self, number: int) -> None:
        member = self.members[number]
        self.deliver(LateCommit(member.member_id, member.generation, member.owned))

    @rule(number=MEMBERS)
    def commit_late(self, number: int) -> None:
        member = self.members[number]
        self.late.append(LateCommit(member.member_id, member.generation, member.owned))

    @rule(data=st.data())
    def deliver_late(self, data: st.DataObject) -> None:
        if self.late:
            self.deliver(self.late.pop(data.draw(st.integers(0, len(self.late) - 1))))

    def deliver(self, commit: LateCommit) -> None:
        """What is accepted is of the last one who has begun to read these partitions."""
        if not commit.owned or commit.generation < 0:
            return
        error = self.h.commit_as(commit.member_id, commit.generation, *commit.owned)
        if error is ErrorCode.NONE:
            assert {self.readers.last[pair] for pair in commit.owned} == {commit.member_id}

    # --- the world ---

    @rule()
    def topic_grows(self) -> None:
        self.partitions += 1
        self.h.change_topics(topics(t=self.partitions))

    @rule()
    def crash(self) -> None:
        """Who waited for an answer asks again."""
        self.h.reload()
        for member in self.members:
            if isinstance(member, ClassicClient):
                member.lose_answers()

    @rule()
    def rest(self) -> None:
        """After a while everything is read, by one member each, and everybody may commit."""
        for _ in range(ROUNDS):
            self.all_step(2)
        owned = [pair for member in self.members for pair in member.owned]
        counts = {
            change.name: change.topic.partition_count for change in self.h.topics.changes if change.topic
        }
        expected = {(name, index) for name, count in counts.items() for index in range(count)}
        assert sorted(owned) == sorted(expected)
        for member in self.members:
            assert not member.owned or member.commit() is ErrorCode.NONE


MigrationMachine.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=12,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMigration = MigrationMachine.TestCase

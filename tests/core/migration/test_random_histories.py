"""A group with random members of both protocols, delayed commits and crashes: its guarantees always hold.

Six members, two of them static, take steps at random times, leave, are killed, change their protocol, and
commit; commits are delivered late; responses to joins and syncs are delayed; time passes; topics grow; the
shard crashes. Classic members are all eager or all cooperative. The harness checks at every step that a
replay leads to the same state, and `check_invariants` checks the epochs and the single owner. The checks here
are about commits, and that every partition is read in the end: of all members that consider themselves owners
of a partition, also killed ones, at most one may commit it. One seed decides everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from tests.core.consumer.support import ConsumerHarness, G, Pairs, check_invariants, topics
from tests.core.kinds_of_shard import classic_groups, consumer_groups
from tests.core.migration.support import SESSION_TIMEOUT_MS, Anyone, ClassicClient, NewClient

from headgate.core.classic import offsets as classic_offsets
from headgate.core.consumer import offsets as consumer_offsets
from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, TopicName

SEEDS = 24
ACTIONS = 14
MEMBERS = 6
STATIC = (4, 5)
ROUNDS = 30
"""Of a second each: by then who was killed is gone, and the others have come to terms."""


@dataclass(frozen=True)
class LateCommit:
    """A delayed commit: its member, the epoch, and the partitions."""

    member_id: str
    generation: int
    owned: Pairs


class History:
    """One group, six members, and their steps."""

    def __init__(self, seed: int) -> None:
        """All members are there and of one kind, none has said anything."""
        self.random = Random(seed)
        self.crashes = Random(f"crashes of {seed}")
        self.partitions = 4
        self.h = ConsumerHarness(
            {"t": self.partitions, "u": 3},
            group_consumer_migration_policy=self.random.choice(("bidirectional", "bidirectional", "upgrade")),
            group_consumer_assignment_interval_ms=self.random.choice(("0", "1000")),
            group_consumer_session_timeout_ms=str(SESSION_TIMEOUT_MS),
            group_initial_rebalance_delay_ms="0",
        )
        self.is_cooperative = self.flip()
        self.late: list[LateCommit] = []
        self.last_readers: dict[tuple[str, int], str] = {}
        """Who has begun to read each partition last, by the id it had."""
        self.incarnations = 0
        is_new = self.flip()
        self.killed: list[Anyone] = []
        """Those that did not leave: they may go on to commit."""
        self.members = [self.incarnation(number, is_new=is_new) for number in range(MEMBERS)]

    def flip(self) -> bool:
        """Return True or False."""
        return self.random.random() < 0.5

    def one(self) -> int:
        """Return one of the members."""
        return self.random.randrange(MEMBERS)

    def incarnation(self, number: int, *, is_new: bool) -> Anyone:
        """Return a new process of member `number`; two are static, two subscribe to more topics."""
        self.incarnations += 1
        name = f"m{number}.{self.incarnations}"
        names = ("t", "u") if number % 3 == 0 else ("t",)
        instance_id = f"i{number}" if number in STATIC else None
        if is_new:
            return NewClient(self.h, name, names, instance_id)
        return ClassicClient(self.h, name, names, self.is_cooperative, instance_id)

    def step_of(self, member: Anyone) -> None:
        """Do one step of one member, then check the invariants."""
        before = member.owned
        member.step()
        for pair in member.owned - before:
            self.last_readers[pair] = member.member_id
        group = consumer_groups(self.h.shard).find(G)
        if group is not None:
            check_invariants(group)
        self.check_single_committer()

    def check_single_committer(self) -> None:
        """Of those that consider themselves owners of a partition, at most one may commit."""
        believers: dict[tuple[str, int], list[Anyone]] = {}
        for member in (*self.members, *self.killed):
            for pair in member.owned:
                believers.setdefault(pair, []).append(member)
        for pair, members in believers.items():
            if len(members) > 1:
                believed = [one.member_id for one in members if self.may_commit(one, pair)]
                assert len(believed) <= 1, f"{pair} may be committed by {believed}"

    def may_commit(self, member: Anyone, pair: tuple[str, int]) -> bool:
        """Return whether the group would accept a member's commit of one partition; changes nothing."""
        if member.generation < 0:
            return False
        topic, partition = pair
        command = CommitOffsets(
            G,
            [(TopicName(topic), [OffsetToCommit(partition, 7, -1, "")])],
            member_id=MemberId(member.member_id),
            generation=member.generation,
        )
        shard = self.h.shard
        classic, consumer = classic_groups(shard).live.get(G), consumer_groups(shard).find(G)
        if classic is not None:
            return not classic_offsets.commit_error(classic, command)
        return consumer is not None and not consumer_offsets.commit_error(
            consumer, command, consumer_groups(shard).topics, None
        )

    # --- what members do ---

    def step(self) -> None:
        """Do a step of one member."""
        member = self.members[self.one()]
        for _ in range(self.random.randint(1, 4)):
            self.step_of(member)

    def all_step(self, rounds: int | None = None) -> None:
        """Do steps of all members, half a second apart."""
        for _ in range(self.random.randint(1, 6) if rounds is None else rounds):
            for member in self.members:
                self.step_of(member)
            self.h.advance(500)

    def all_step_with_delays(self) -> None:
        """Do steps of all members without delayed responses."""
        for _ in range(self.random.randint(1, 12)):
            for member in self.members:
                if self.flip():
                    self.step_of(member)
            self.h.advance(500)

    def comes_amid_answers(self) -> None:
        """Add a member of the consumer protocol during a rebalance, with delayed responses."""
        for number, member in enumerate(self.members):
            if isinstance(member, NewClient):
                member.leave()
                self.members[number] = self.incarnation(number, is_new=False)
        self.all_step(ROUNDS)
        for is_new in (False, True):
            number = self.one()
            self.kill(number)
            self.members[number] = self.incarnation(number, is_new=is_new)
            if is_new:
                for _ in range(4):
                    self.step_of(self.members[number])
                    self.h.advance(500)
            else:
                for _ in range(self.random.randint(MEMBERS, 4 * MEMBERS)):
                    self.step_of(self.members[self.one()])
                    self.h.advance(100)

    def restart(self) -> None:
        """Restart a member, possibly with the other protocol; without a leave the group notices after a
        session timeout.
        """
        number = self.one()
        self.kill(number)
        self.members[number] = self.incarnation(number, is_new=self.flip())

    def kill(self, number: int) -> None:
        """Remove a member by a leave, or by a session timeout."""
        if self.flip():
            self.members[number].leave()
        else:
            self.killed.append(self.members[number])

    def roll(self) -> None:
        """Restart all members, one after the other, with one protocol."""
        order, is_new, rounds = list(range(MEMBERS)), self.flip(), self.random.randint(0, 3)
        self.random.shuffle(order)
        for number in order:
            self.members[number].leave()
            self.members[number] = self.incarnation(number, is_new=is_new)
            self.all_step(rounds)

    def static_there_and_back(self) -> None:
        """Restart a static member with the new protocol and back."""
        number = self.random.choice(STATIC)
        for is_new in (True, False):
            self.killed.append(self.members[number])
            self.members[number] = self.incarnation(number, is_new=is_new)
            self.all_step(self.random.randint(1, 12))

    def fall_silent(self) -> None:
        """Stop a member for longer than a session timeout; it never gets its pending responses."""
        silent = self.members[self.one()]
        if isinstance(silent, ClassicClient):
            silent.lose_answers()
        for _ in range(1 + SESSION_TIMEOUT_MS // 1_000):
            for member in self.members:
                if member is not silent:
                    self.step_of(member)
            self.h.advance(1_000)

    # --- commits ---

    def commit(self) -> None:
        """Commit all partitions of one member."""
        member = self.members[self.one()]
        self.deliver(LateCommit(member.member_id, member.generation, member.owned))

    def commit_late(self) -> None:
        """Send a commit that is delivered later."""
        member = self.members[self.one()]
        self.late.append(LateCommit(member.member_id, member.generation, member.owned))

    def deliver_late(self) -> None:
        """Deliver a delayed commit."""
        if self.late:
            self.deliver(self.late.pop(self.random.randrange(len(self.late))))

    def deliver(self, commit: LateCommit) -> None:
        """Accepted commits are those of the last member that began to read the partitions."""
        if not commit.owned or commit.generation < 0:
            return
        error = self.h.commit_as(commit.member_id, commit.generation, *commit.owned)
        if error is ErrorCode.NONE:
            assert {self.last_readers[pair] for pair in commit.owned} == {commit.member_id}

    def owned(self) -> list[tuple[str, int]]:
        """Return the partitions of all members."""
        return sorted(pair for member in self.members for pair in member.owned)

    # --- the world ---

    def everything(self) -> list[tuple[str, int]]:
        """Return all partitions."""
        return [("t", index) for index in range(self.partitions)] + [("u", index) for index in range(3)]

    def topic_grows(self) -> None:
        """Add a partition to a topic."""
        self.partitions += 1
        self.h.change_topics(topics(t=self.partitions))

    def crash(self) -> None:
        """Crash the shard; members repeat pending requests; the first tick may be late."""
        self.h.loads_from = self.crashes.choice(("log", "image", "compacted"))
        self.h.be_late([self.crashes.choice((0, 0, 700, 5_000))])
        self.h.reload()
        for member in self.members:
            if isinstance(member, ClassicClient):
                member.lose_answers()

    def rest(self) -> None:
        """After a while every partition is read by one member, and all may commit."""
        self.all_step(2 * ROUNDS)
        assert self.owned() == self.everything()
        for member in self.members:
            assert not member.owned or member.commit() is ErrorCode.NONE


WEIGHTS = {
    History.step: 2,
    History.all_step: 2,
    History.all_step_with_delays: 2,
    History.comes_amid_answers: 2,
    History.restart: 2,
    History.roll: 1,
    History.static_there_and_back: 1,
    History.fall_silent: 1,
    History.commit: 1,
    History.commit_late: 1,
    History.deliver_late: 1,
    History.topic_grows: 1,
    History.crash: 1,
    History.rest: 1,
}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_guarantees_hold_for_members_of_both_protocols(seed: int) -> None:
    """Only a partition's reader can commit it, and after a while all partitions are read."""
    history = History(seed)
    for _ in range(ACTIONS):
        (action,) = history.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        action(history)
    history.rest()
    assert history.owned() == history.everything()

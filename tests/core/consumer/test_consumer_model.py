"""A consumer group under random clients, late commits and lost answers: what clients rely on holds.

Five clients (two of them static) join, beat, revoke when they like to, change what they read, leave, fall
silent, commit; commits and heartbeats are delivered late, twice or never answered; topics grow; the shard
crashes. The harness checks replay at every step and `check_invariants` the epochs and the single owner; the
rules here are about who may commit what, and about everybody getting their part in the end.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.core.consumer.support import (
    SESSION_TIMEOUT_MS,
    ConsumerHarness,
    Pairs,
    beat,
    check_invariants,
    joining,
    pairs,
    topic_id,
    topics,
)
from tests.core.harness import LOADS_FROM, RANDOM_LIVES, durable_state
from tests.core.kinds_of_shard import consumer_groups

from headgate.core.consumer.commands import (
    ConsumerHeartbeat,
    HeartbeatAgain,
    HeartbeatResult,
    HeartbeatsAgain,
)
from headgate.core.shard import GroupShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId, TopicName
from headgate.records import decode

CLIENTS = st.integers(0, 4)
SUBSCRIPTIONS = st.sampled_from([("t",), ("u",), ("t", "u"), ()])
FENCING = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@dataclass
class Client:
    """What one client knows, which is only what it was answered."""

    number: int
    life: int = 0
    names: tuple[str, ...] = ("t",)
    epoch: int = 0
    owned: Pairs = frozenset()
    told: Pairs = frozenset()
    """Its target assignment; it revokes the other partitions at any time."""
    has_lost_an_answer: bool = False
    is_running: bool = False

    @property
    def member_id(self) -> MemberId:
        """Clients 3 and 4 get a new id when they come back; the others keep theirs."""
        return MemberId(f"m{self.number}.{self.life if self.number >= 3 else 0}")

    @property
    def instance(self) -> dict[str, Any]:
        """Clients 3 and 4 are static."""
        return {"instance_id": InstanceId(f"i{self.number}")} if self.number >= 3 else {}

    def heartbeat(self) -> ConsumerHeartbeat:
        """What it would send now: all it has to say if it joins or an answer is missing."""
        if self.epoch == 0:
            return beat(self.member_id, 0, **joining(*self.names), **self.instance)
        more = joining(*self.names) if self.has_lost_an_answer else {}
        return beat(self.member_id, self.epoch, **(more | {"reported": self.owned}), **self.instance)

    def forget(self) -> None:
        """It is nobody's member and has nothing."""
        self.epoch, self.owned, self.told, self.has_lost_an_answer = 0, frozenset(), frozenset(), False


@dataclass(frozen=True)
class LateCommit:
    """A commit that is on its way: the client had this epoch and owned these partitions."""

    member_id: MemberId
    epoch: int
    owned: Pairs


@dataclass
class Ledger:
    """Who was given each partition last, and in which epoch, as the group's state shows it."""

    grants: dict[tuple[str, int], tuple[MemberId, int]] = field(default_factory=dict)

    def look(self, h: ConsumerHarness) -> None:
        """Take note of what was given since the last look."""
        group = consumer_groups(h.shard).find(h.group.group_id)
        for member_id in group.members if group else ():
            current = h.group.member(member_id).current
            for part in (current.assigned, current.pending_revocation):
                for topic, epochs in part.items():
                    for partition, epoch in epochs.items():
                        (pair,) = pairs({topic: [partition]})
                        self.grants[pair] = (member_id, epoch)


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group, five clients."""

    harness_type: ClassVar[type[ConsumerHarness]] = ConsumerHarness

    def __init__(self) -> None:
        super().__init__()
        self.h = self.harness_type()
        self.clients = [Client(number) for number in range(5)]
        self.late: list[LateCommit] = []
        self.ledger = Ledger()
        self.stayed: dict[int, tuple[ConsumerHeartbeat, HeartbeatResult]] = {}
        """By client, its last heartbeat that said nothing, and what it heard."""

    @initialize(interval_ms=st.sampled_from([0, 1_000]), assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, interval_ms: int, assignor: str) -> None:
        """Targets are made at once, or stand for a while; the group is there all the time."""
        self.h = self.harness_type(
            {"t": 4, "u": 3},
            group_consumer_assignment_interval_ms=str(interval_ms),
            group_consumer_assignors=assignor,
        )
        self.h.beat("first", 0, **joining())

    def ask(self, command: ConsumerHeartbeat) -> HeartbeatResult:
        self.keep_first_alive()
        return self.ask_alone(command)

    def ask_alone(self, command: ConsumerHeartbeat) -> HeartbeatResult:
        result = self.h.ask(command)
        assert isinstance(result, HeartbeatResult)
        check_invariants(self.h.group)
        self.ledger.look(self.h)
        return result

    def keep_first_alive(self) -> None:
        first = self.h.group.member(MemberId("first"))
        self.h.beat("first", first.member_epoch, reported=[])

    # --- heartbeats ---

    @rule(number=CLIENTS, delivery=st.sampled_from(["well", "twice", "unanswered"]))
    def beat(self, number: int, delivery: str) -> None:
        client = self.clients[number]
        client.is_running = True
        command = client.heartbeat()
        result = self.ask(command)
        if delivery == "twice":
            before = durable_state(self.h.shard)
            again = self.ask_alone(command)
            assert durable_state(self.h.shard) == before, "the same request twice is one"
            assert (again.error, again.member_epoch) == (result.error, result.member_epoch)
        if delivery == "unanswered":
            client.has_lost_an_answer = True
            return
        self.take(client, result)

    @rule(number=CLIENTS)
    def stay(self, number: int) -> None:
        """A heartbeat that says nothing is the same when it is served as one that came before."""
        client = self.clients[number]
        if client.epoch == 0 or client.has_lost_an_answer or client.owned != client.told:
            return
        before = beat(client.member_id, client.epoch, **client.instance)
        said, heard = self.stayed.get(number, (None, None))
        again = HeartbeatAgain(before, heard if said == before else None)
        expected = deepcopy(self.h.shard).handle(before, self.h.now)
        (result,) = self.h.ask(HeartbeatsAgain([again]))
        if result is None:
            result = self.h.ask(before)
        else:
            assert not expected.records
            assert result == expected.replies[0].result
        if not result.error and result.assigned is None:
            self.stayed[number] = before, result
        self.ledger.look(self.h)
        self.take(client, result)

    def take(self, client: Client, result: HeartbeatResult) -> None:
        if result.error:
            if result.error is ErrorCode.UNRELEASED_INSTANCE_ID:
                assert client.number >= 3
                return
            assert result.error in FENCING, result
            client.forget()
            return
        client.epoch, client.has_lost_an_answer = result.member_epoch, False
        if result.assigned is not None:
            client.told = pairs(result.assigned)
            if client.owned <= client.told:
                client.owned = client.told

    @rule(number=CLIENTS)
    def let_go(self, number: int) -> None:
        client = self.clients[number]
        client.owned = client.told

    @rule(number=CLIENTS)
    def let_go_of_one(self, number: int) -> None:
        """And keep the others, while the target may become another one."""
        client = self.clients[number]
        client.owned -= set(sorted(client.owned - client.told)[:1])

    @rule(number=CLIENTS, names=SUBSCRIPTIONS)
    def subscribe(self, number: int, names: tuple[str, ...]) -> None:
        client = self.clients[number]
        client.names = names
        client.has_lost_an_answer = client.epoch != 0  # its next heartbeat says it

    @rule(number=CLIENTS, for_good=st.booleans())
    def leave(self, number: int, for_good: bool) -> None:
        client = self.clients[number]
        epoch = -1 if for_good or client.number < 3 else -2
        if client.epoch > 0:
            self.ask(beat(client.member_id, epoch, **client.instance))
        client.forget()
        client.life += 1
        client.is_running = False

    @rule(number=CLIENTS)
    def fall_silent(self, number: int) -> None:
        """For more than a session; the others go on, as far as they like to."""
        for _ in range(5 + self.steps_of_stall(SESSION_TIMEOUT_MS // 4)):
            self.h.advance(SESSION_TIMEOUT_MS // 4)
            self.keep_first_alive()
            for client in self.clients:
                if client.number != number and client.epoch > 0:
                    self.take(client, self.ask(client.heartbeat()))
        self.ledger.look(self.h)
        assert self.clients[number].member_id not in self.h.group.members

    # --- commits ---

    @rule(number=CLIENTS)
    def send_commit(self, number: int) -> None:
        client = self.clients[number]
        if client.epoch > 0 and client.owned:
            self.late.append(LateCommit(client.member_id, client.epoch, client.owned))

    @rule(index=st.integers(0, 20), one=st.integers(0, 20))
    def deliver_commit(self, index: int, one: int) -> None:
        """Whole, then for one of its partitions: each is accepted or refused as the ledger says."""
        if not self.late:
            return
        commit = self.late[index % len(self.late)]
        wanted = sorted(commit.owned)
        self.judge(commit, wanted)
        self.judge(commit, [wanted[one % len(wanted)]])

    def judge(self, commit: LateCommit, wanted: list[tuple[str, int]]) -> None:
        error = self.h.commit_as(commit.member_id, commit.epoch, *wanted)
        assert error in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.h.group.find_member(commit.member_id)
        if error is ErrorCode.NONE:
            for pair in wanted:
                _, since = self.ledger.grants[pair]
                assert since <= commit.epoch, f"a zombie's commit for {pair}"
            self.accepted(wanted)
            return
        if member is None:
            assert error is ErrorCode.UNKNOWN_MEMBER_ID
            return
        assert commit.epoch != member.member_epoch, "what the strict rule takes, the relaxed one takes"
        has_owned_since = [
            self.owns(commit.member_id, pair) and self.ledger.grants[pair][1] <= commit.epoch
            for pair in wanted
        ]
        is_known_epoch = commit.epoch <= member.member_epoch
        assert not (all(has_owned_since) and is_known_epoch), "an owner's commit was refused"

    def accepted(self, wanted: list[tuple[str, int]]) -> None:
        """A commit of a member to these partitions was accepted."""

    def owns(self, member_id: MemberId, pair: tuple[str, int]) -> bool:
        name, partition = pair
        return self.h.group.owners.get(topic_id(name), {}).get(partition) == member_id

    # --- the world ---

    @rule()
    def wait(self) -> None:
        """Some targets may be made then that were not before."""
        self.h.advance(700)

    @rule(loads_from=LOADS_FROM)
    def crash(self, loads_from: Any) -> None:
        self.h.loads_from = loads_from
        self.h.reload()

    @rule(lateness_ms=st.sampled_from([1, 300, 5_000, 120_000]))
    def stall(self, lateness_ms: int) -> None:
        """The next tick comes late."""
        self.h.be_late([lateness_ms])

    def steps_of_stall(self, step_ms: int) -> int:
        """So many more steps until the tick has come that is late now."""
        return -(-self.h.next_late_ms // step_ms)

    @rule(name=st.sampled_from(["t", "u"]))
    def grow(self, name: str) -> None:
        known = consumer_groups(self.h.shard).topics.find(TopicName(name))
        assert known is not None
        if known.partition_count < 8:
            self.h.change_topics(topics(**{name: known.partition_count + 1}))

    @rule()
    def load_from_a_compacted_log(self) -> None:
        """The last record of each key, and no tombstone, is enough to make the same group."""
        last = {key: (position, value) for position, (key, value) in enumerate(self.h.log)}
        shard = GroupShard(self.h.settings)
        for key, (position, value) in sorted(last.items(), key=lambda one: one[1][0]):
            if value is not None:
                shard.apply(decode(key, value), position)
        assert durable_state(shard) == durable_state(self.h.shard)

    def teardown(self) -> None:
        """If everybody does what they are told, all get to the group's epoch and everything is read."""
        running = [client for client in self.clients if client.is_running]
        # Those that went without a word are gone after some of them.
        for _ in range(16 + self.steps_of_stall(SESSION_TIMEOUT_MS // 6)):
            self.h.advance(SESSION_TIMEOUT_MS // 6)
            self.keep_first_alive()
            for client in running:
                client.owned = client.told
                self.take(client, self.ask(client.heartbeat()))
        group = self.h.group
        assert set(group.members) == {"first", *(client.member_id for client in running)}
        assert all(client.epoch == group.epoch == group.assignment_epoch for client in running)
        owned = [pair for client in running for pair in client.owned]
        assert len(owned) == len(set(owned))
        read = {TopicName(name) for client in running for name in client.names}
        known = {name: consumer_groups(self.h.shard).topics.find(name) for name in read}
        assert set(owned) == {
            (name, one) for name, topic in known.items() if topic for one in range(topic.partition_count)
        }


ConsumerGroupMachine.TestCase.settings = RANDOM_LIVES
TestConsumerGroup = pytest.mark.interpreted(ConsumerGroupMachine.TestCase)

"""Random months of many groups: offsets expire when the rules say so, and at no other time.

One group moves between the protocols while its members join, leave and change their subscriptions. Other
groups have members of their own protocol, or only commit, also as old clients with a retention. Ticks are
late by seconds to hours. The shard restarts from its log, from an image and from a compacted log, also with
another retention. Groups get and lose a retention of their own. `ExpiryOracle` decides at each tick which
offsets may expire. They must be removed after two more sweeps. The forecast must agree with the oracle
at any time: an offset is expired when its forecast time has come.
"""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from tests.core.consumer.support import ConsumerHarness, G
from tests.core.harness import join, leave, sync
from tests.core.migration import support
from tests.core.migration.support import Anyone, ClassicClient, NewClient
from tests.core.offsets.expiry_oracle import (
    ExpiryOracle,
    KnownOffset,
    Place,
    SeenGroup,
    reads_of_consumer_group,
)
from tests.core.offsets.forecasts import end_of, forecast_of

from headgate.core.classic.commands import DescribeGroup
from headgate.core.commands import (
    DeleteGroup,
    DeleteTopicOffsets,
    ListGroups,
    Tick,
)
from headgate.core.consumer.commands import DescribeConsumerGroup
from headgate.core.migration.consumer_protocol import read_subscription
from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.core.timers import Timer, TimerKind
from headgate.domain.ids import GroupId, MemberId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import OffsetTombstone
from headgate.records.columns import records_of

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
SEEDS = 20
ACTIONS = 50
FORECAST_EVERY = 20
"""Comparisons of forecasts, as a part of the looks at the groups: they take long."""
SIMPLE = ("s1", "s2", "old")
CONNECT = "connect"
TOPICS = ("t", "u", "v")
TOKEN = -7


class Months(ConsumerHarness):
    """A shard over months, compared with the oracle at every command and tick."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.sweeps = self.looks = 0
        self.expired_at_sweep: dict[Place, int] = {}
        """Number of sweeps when an offset was first seen to be expired."""
        super().__init__(
            dict.fromkeys(TOPICS, 2),
            group_initial_rebalance_delay_ms="0",
            group_max_session_timeout_ms=str(20 * DAY),
            group_consumer_session_timeout_ms=str(20 * DAY),
            group_consumer_max_session_timeout_ms=str(20 * DAY),
            group_consumer_migration_policy=random.choice(("bidirectional", "bidirectional", "upgrade")),
            group_consumer_assignment_interval_ms=random.choice(("0", "1000")),
            offsets_retention_minutes=str(random.choice((1, 10, 7 * 24 * 60))),
            offsets_retention_check_interval_ms=str(random.choice((10 * MINUTE, HOUR))),
        )
        self.replays_each_step = False
        self.oracle = ExpiryOracle(self.settings["offsets.retention.minutes"] * MINUTE)

    def change_retention(self, minutes: int) -> None:
        """Set the retention of offsets, from the next start on."""
        self.settings = Settings({**self.given, "offsets.retention.minutes": str(minutes)})

    def configure(self, group_id: str, retention_ms: int | None) -> None:
        """Set a group's own retention, or None."""
        if retention_ms is None:
            self.oracle.own_retention_ms.pop(group_id, None)
        else:
            self.oracle.own_retention_ms[group_id] = retention_ms
        self.configure_retention(group_id, retention_ms)

    def reload(self) -> None:
        """Crash, reload, and check the state."""
        self.oracle.retention_ms = self.settings["offsets.retention.minutes"] * MINUTE
        super().reload()
        self.expired_at_sweep.clear()
        self.look()

    def _handle(self, command: Any, token: int) -> None:
        is_sweep = self.shard._deadlines.due_at(Timer(TimerKind.SWEEP))
        self.batches.clear()
        super()._handle(command, token)
        if not hasattr(self, "oracle"):
            return
        gone = [
            (record.group_id, record.topic, record.partition)
            for batch in self.batches
            for change in batch
            for record in records_of(change)
            if isinstance(record, OffsetTombstone)
        ]
        for place in gone:
            if isinstance(command, Tick) and place in self.oracle.offsets:
                assert self.oracle.is_expired(place, self.now), f"{place} went at {self.now}: {self.oracle}"
            self.oracle.offsets.pop(place, None)
        if isinstance(command, CommitOffsets):
            self._take_in(command, token)
        self.look()
        if self.shard._deadlines.due_at(Timer(TimerKind.SWEEP)) != is_sweep:
            self.sweeps += self.shard._upkeep._candidates is None
        self._check_none_is_forgotten()

    def _take_in(self, command: CommitOffsets, token: int) -> None:
        if self.answers[token].error:
            return
        own = None if command.retention_ms == -1 else Millis(self.now + command.retention_ms)
        for topic, partitions in command.topics:
            for one in partitions:
                assert isinstance(one, OffsetToCommit)
                place = (command.group_id, topic, one.partition)
                self.oracle.offsets[place] = KnownOffset(self.now, own)

    def look(self) -> None:
        """Give the oracle the current groups."""
        seen = {}
        for listed in self._answer(ListGroups()).groups:
            reads: frozenset[str] | None = frozenset()
            if listed.group_type == "consumer":
                reads = reads_of_consumer_group(self._answer(DescribeConsumerGroup(listed.group_id)))
            elif listed.protocol_type == "consumer" and listed.state != "Empty":
                reads = self._reads_of_classic_group(listed.group_id)
            kind = listed.group_type.capitalize()
            seen[str(listed.group_id)] = SeenGroup(kind, listed.state, listed.protocol_type, reads)
        self.oracle.sees(seen, self.now)
        held = {
            (group_id, topic, partition)
            for group_id in seen
            for topic, partition, _ in self.shard.offsets.offsets_of(GroupId(group_id))
        }
        assert held == set(self.oracle.offsets)
        self.looks += 1
        if self.looks % FORECAST_EVERY == 0:
            self._compare_forecasts(seen)

    def _compare_forecasts(self, seen: dict[str, SeenGroup]) -> None:
        listed = {
            forecast.group.group_id: forecast for forecast in self.shard.forecasts() if forecast is not None
        }
        untils = [Millis(self.now + within_ms) for within_ms in (0, HOUR, 6 * DAY, 60 * DAY)]
        counts = end_of(self.shard.counting_expiring_groups(untils))
        assert counts == [sum(one.first_at <= until for one in listed.values()) for until in untils]
        for group_id, group in seen.items():
            expiries = forecast_of(self.shard, group_id, self.now)
            for place, at in expiries.items():
                assert (at <= self.now) == self.oracle.is_expired(place, self.now), (place, at, self.oracle)
            if group.is_empty and expiries:
                forecast = listed.pop(GroupId(group_id))
                assert forecast.offset_count == len(expiries)
                assert (forecast.first_at, forecast.last_at) == (
                    min(expiries.values()),
                    max(expiries.values()),
                )
        assert not listed

    def _reads_of_classic_group(self, group_id: GroupId) -> frozenset[str] | None:
        reads: set[str] = set()
        for member in self._answer(DescribeGroup(group_id)).members:
            subscription = read_subscription(member.metadata)
            if subscription is None:
                return None
            reads.update(subscription.topics)
        return frozenset(reads)

    def _answer(self, command: Any) -> Any:
        effects = self.shard.handle(command, self.now, TOKEN)
        assert not effects.records
        return effects.replies[0].result

    def _check_none_is_forgotten(self) -> None:
        for place in self.oracle.offsets:
            if not self.oracle.is_expired(place, self.now):
                self.expired_at_sweep.pop(place, None)
                continue
            since = self.expired_at_sweep.setdefault(place, self.sweeps)
            assert self.sweeps - since <= 1, f"{place} is expired and stays: {self.oracle}"
        for place in self.expired_at_sweep.keys() - self.oracle.offsets.keys():
            del self.expired_at_sweep[place]


class Life:
    """The events of these months."""

    def __init__(self, seed: int) -> None:
        self.h = Months(seed)
        self.random = self.h.random
        self.members: list[Anyone] = [
            ClassicClient(self.h, "a"),
            ClassicClient(self.h, "b"),
            NewClient(self.h, "x"),
            NewClient(self.h, "y"),
        ]
        self.joined: list[Anyone] = []
        self.connects = 0
        self.connected: MemberId | None = None

    def run(self) -> None:
        """Run until enough has happened, and then check once more which offsets must be removed."""
        actions = [
            self.configure,
            *(self.wait,) * 6,
            *(self.commit_simple, self.commit_member, self.come, self.connect) * 3,
            *(
                self.commit_without_members,
                self.go,
                self.change_topics,
                self.crash,
                self.be_late,
                self.all_go,
            ),
            self.random.choice((self.delete_group, self.erase, self.fall_silent)),
        ]
        for _ in range(ACTIONS):
            self.random.choice(actions)()
            self.steps(self.random.choice((0, 1, 6)))
        self.h.be_late([])
        self.h.advance(3 * HOUR)

    def steps(self, rounds: int) -> None:
        """Let members act."""
        for _ in range(rounds):
            for member in self.joined:
                member.step()
            self.h.advance(1_000)

    def wait(self) -> None:
        """Let time pass."""
        self.h.advance(self.random.choice((1, 5_000, 3 * MINUTE, 10 * MINUTE, 2 * HOUR, DAY, 5 * DAY)))

    def be_late(self) -> None:
        """Delay the next ticks by seconds to hours."""
        self.h.be_late([self.random.choice((500, 20_000, 11 * MINUTE, 3 * HOUR)) for _ in range(3)])

    def commit_simple(self) -> None:
        """Commit as a tool, or as an old client with its own retention."""
        group_id = self.random.choice(SIMPLE)
        more: dict[str, Any] = {}
        if group_id == "old":
            more["retention_ms"] = self.random.choice((0, 5 * MINUTE, 30 * DAY, 2**62))
        self.h.commit(group_id, self.random.choice(TOPICS), self.random.randrange(3), **more)

    def configure(self) -> None:
        """Give a group a retention of its own, or take it away."""
        retention_ms = self.random.choice((None, -1, 1, 5 * MINUTE, 2 * DAY, 2**63 - 1))
        self.h.configure(self.random.choice((*SIMPLE, G, CONNECT)), retention_ms)

    def commit_without_members(self) -> None:
        """Commit as a tool to a group that may have members, which then refuses it."""
        group_id = self.random.choice((G, CONNECT))
        topics = [(TopicName(self.random.choice(TOPICS)), [OffsetToCommit(5, 1, -1, "")])]
        self.h.ask(CommitOffsets(GroupId(group_id), topics))

    def commit_member(self) -> None:
        """Commit as a member to any topic, subscribed or not."""
        if self.joined:
            member = self.random.choice(self.joined)
            places = [(self.random.choice(TOPICS), self.random.randrange(2))]
            self.h.commit_as(member.member_id, member.generation, *places)

    def come(self) -> None:
        """Let a member join the group of both protocols."""
        absent = [one for one in self.members if one not in self.joined]
        if absent:
            member = self.random.choice(absent)
            member.names = tuple(sorted(self.random.sample(TOPICS, self.random.choice((1, 2)))))
            self.joined.append(member)
            self.steps(8)

    def go(self) -> None:
        """Let a member leave."""
        if self.joined:
            self.joined.pop(self.random.randrange(len(self.joined))).leave()

    def all_go(self) -> None:
        """Let all members leave, for a while at least."""
        while self.joined:
            self.go()

    def fall_silent(self) -> None:
        """Let a member stop, so that its session expires."""
        if self.joined:
            self.joined.pop(self.random.randrange(len(self.joined))).forget()

    def change_topics(self) -> None:
        """Let a member leave and rejoin with another subscription."""
        self.go()
        self.come()

    def connect(self) -> None:
        """Let a member of a group of another protocol join and commit, or leave."""
        if self.connected is not None:
            self.h.ask(leave((self.connected, None), group_id=CONNECT))
            self.connected = None
            return
        self.connects += 1
        member_id = MemberId(f"c{self.connects}")
        token = self.h.send(
            join(
                group_id=CONNECT,
                new_member_id=member_id,
                must_know_member_id=False,
                protocol_type="connect",
                session_timeout_ms=self.random.choice((DAY, 20 * DAY)),
            )
        )
        while self.h.is_parked(token):
            self.h.advance(10_000)
        if self.h.answers[token].error:
            return
        self.connected = member_id
        generation = self.h.answers[token].generation
        if self.random.random() < 0.8:
            self.h.send(sync(member_id, generation, group_id=CONNECT, assignments=((member_id, b"all"),)))
            self.h.commit(CONNECT, self.random.choice(TOPICS), member_id=member_id, generation=generation)

    def crash(self) -> None:
        """Restart the shard, perhaps with another retention."""
        self.h.loads_from = self.random.choice(("log", "image", "compacted"))
        if self.random.random() < 0.3:
            self.h.change_retention(self.random.choice((1, 10, 60, 7 * 24 * 60, 2**31 - 1)))
        self.h.reload()
        for member in self.joined:
            if isinstance(member, ClassicClient):
                member.lose_answers()

    def delete_group(self) -> None:
        """Delete a group, if it is empty."""
        self.h.ask(DeleteGroup(GroupId(self.random.choice((*SIMPLE, G, CONNECT)))))

    def erase(self) -> None:
        """Delete a topic and its offsets."""
        token = self.h.send(DeleteTopicOffsets(TopicName("v")))
        while self.h.is_parked(token):
            self.h.advance(5)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_offsets_expire_when_the_rules_say_so(seed: int) -> None:
    """Not earlier in any of these months, and not later than the second sweep."""
    with patch.object(support, "SESSION_TIMEOUT_MS", 20 * DAY):
        life = Life(seed)
        life.run()
    assert life.h.looks > ACTIONS, "each of them compared the shard with the oracle"

"""Random histories of share groups: members, topics, initializations that fail, crashes."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.share.membership_life import HEARTBEAT_MS, ShareLife, topic_id

from headgate.core.share.membership.commands import ShareHeartbeatResult
from headgate.domain.errors import ErrorCode

MEMBERS = ["m1", "m2", "m3", "m4"]
TOPICS = ["t", "u", "v"]
OK = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_MEMBER_EPOCH,
)


class History:
    """One group, and what its members think of themselves."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.life = ShareLife(group_share_assignment_interval_ms="0")
        self.life.replays_each_step = False
        self.life.initializes = False
        self.counts = {"t": 2, "u": 1, "v": 3}
        self.life.topics(**self.counts)
        self.epochs: dict[str, int] = {}
        self.last_epoch = 0

    def step(self) -> None:
        """Do one thing."""
        chosen = self.random.choice([self.beat] * 6 + [self.join] * 3 + [self.leave, self.grow, self.crash])
        chosen()
        self.check()

    def beat(self) -> None:
        if self.epochs:
            member = self.random.choice(sorted(self.epochs))
            self.heard(member, self.life.heartbeat(member, self.epochs[member]))
        self.life.advance(self.random.choice([10, HEARTBEAT_MS, 2 * HEARTBEAT_MS]))

    def join(self) -> None:
        member = self.random.choice(MEMBERS)
        names = self.random.sample(TOPICS, self.random.randint(1, 3))
        self.heard(member, self.life.heartbeat(member, 0, *names))

    def leave(self) -> None:
        if self.epochs:
            member = self.random.choice(sorted(self.epochs))
            del self.epochs[member]
            self.life.heartbeat(member, -1)

    def grow(self) -> None:
        name = self.random.choice(TOPICS)
        self.counts[name] += 1
        self.life.topics(**{name: self.counts[name]})

    def crash(self) -> None:
        self.life.reload()
        self.life.topics(**self.counts)

    def heard(self, member: str, result: ShareHeartbeatResult) -> None:
        assert result.error in OK
        if result.error:
            self.epochs.pop(member, None)
            return
        self.epochs[member] = result.member_epoch
        asked = result.initialization
        if asked is not None and self.random.random() < 0.7:
            self.life.confirm(asked)

    def check(self) -> None:
        """The group epoch never falls; no partition is assigned that has no state."""
        if not self.epochs:
            return
        group = self.life.group()
        assert group.epoch >= self.last_epoch
        self.last_epoch = group.epoch
        initialized = group.states_now.initialized
        for target in (*group.targets.values(),):
            for topic, indexes in target.partitions.items():
                assert set(indexes) <= set(initialized[topic].partitions)

    def settle(self) -> None:
        """Everybody goes on until nothing changes: then all partitions that are read are assigned."""
        self.life.initializes = True
        for _ in range(14):
            self.life.advance(HEARTBEAT_MS)
            for member in sorted(self.epochs):
                result = self.life.heartbeat(member, self.epochs[member])
                if result.error:
                    del self.epochs[member]
                else:
                    self.epochs[member] = result.member_epoch


@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_a_group_settles_after_any_history(seed: int) -> None:
    """All partitions of subscribed topics are assigned to members that read them, all in the same epoch."""
    history = History(seed)
    for _ in range(40):
        history.step()
    history.settle()
    life = history.life
    life.reload()
    if not history.epochs:
        return
    group = life.group()
    assert set(group.members) == set(history.epochs)
    assert {current.member_epoch for current in group.currents.values()} == {group.epoch}
    assert group.assignment_epoch == group.epoch
    assigned = {
        (topic, index)
        for current in group.currents.values()
        for topic, indexes in current.assigned.items()
        for index in indexes
    }
    wanted = {(topic_id(name), index) for name in group.topics for index in range(history.counts[name])}
    assert assigned == wanted
    for member_id, current in group.currents.items():
        read = {topic_id(name) for name in group.members[member_id].subscribed_topic_names}
        assert current.assigned.keys() <= read

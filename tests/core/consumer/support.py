"""Helpers of the consumer groups' tests: short heartbeats, well-behaved clients, and invariants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.core.harness import Harness
from tests.core.kinds_of_shard import consumer_groups

from headgate.core.commands import Tick
from headgate.core.consumer.commands import ConsumerHeartbeat, HeartbeatResult
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.contract import Producer
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    CommitTransactionalOffsets,
    OffsetToCommit,
)
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName

G = GroupId("g")
REBALANCE_TIMEOUT_MS = 60_000
SESSION_TIMEOUT_MS = 45_000

Pairs = frozenset[tuple[str, int]]
"""Partitions by the topic's name."""


def topic_id(name: str, life: int = 0) -> TopicId:
    """The id of a topic of that name; `life` counts how often it was deleted."""
    return TopicId(f"{name}/{life}".encode().ljust(16, b"."))


def topics(*, life: int = 0, **counts: int) -> TopicsChanged:
    """Topics of these names have so many partitions now, or are gone if none."""
    return TopicsChanged(
        [
            TopicChange(TopicName(name), KnownTopic(topic_id(name, life), count) if count else None)
            for name, count in counts.items()
        ]
    )


class ConsumerHarness(Harness):
    """A shard with topics, and shorthands for consumer groups. Assignments are made at once unless told."""

    def __init__(self, counts: Mapping[str, int] | None = None, **settings: str) -> None:
        super().__init__(**({"group_consumer_assignment_interval_ms": "0"} | settings))
        self.topics = topics(**({"t": 3, "u": 2} if counts is None else counts))
        self.ask(self.topics)

    def reload(self) -> None:
        """Crash; the shard is told of the topics when it is there again."""
        super().reload()
        self.ask(self.topics)

    def change_topics(self, changed: TopicsChanged) -> None:
        """Topics are others from now on."""
        self.topics = TopicsChanged([*self.topics.changes, *changed.changes])
        self.ask(changed)

    def tick(self) -> bool:
        """One tick, if one is due within a millisecond, which then has passed; whether one was."""
        due = self.shard.next_deadline()
        if due is None or due > self.now + 1:
            return False
        self.now = Millis(max(self.now, due))
        self._handle(Tick(), 0)
        return True

    @property
    def group(self) -> ConsumerGroup:
        """The group of the tests."""
        group = consumer_groups(self.shard).find(G)
        assert group is not None
        return group

    def beat(self, member_id: str, epoch: int, **more: Any) -> HeartbeatResult:
        """A heartbeat as it comes, and its answer."""
        result = self.ask(beat(member_id, epoch, **more))
        assert isinstance(result, HeartbeatResult)
        if consumer_groups(self.shard).find(G) is not None:
            check_invariants(self.group)
        return result

    def join(self, member_id: str, *names: str, **more: Any) -> HeartbeatResult:
        """A member joins, and reads these topics."""
        return self.beat(member_id, 0, **(joining(*names) | more))

    def commit_as(self, member_id: str, epoch: int, *partitions: tuple[str, int], **more: Any) -> ErrorCode:
        """A commit of a member for some partitions, 7 for each; its error."""
        to_commit = [(TopicName(name), [OffsetToCommit(one, 7, -1, "")]) for name, one in partitions]
        command = CommitOffsets(G, to_commit, member_id=MemberId(member_id), generation=epoch, **more)
        result = self.ask(command)
        assert isinstance(result, CommitResult)
        return result.error

    def commit_in_transaction_as(
        self, member_id: str, epoch: int, *partitions: tuple[str, int], instance_id: str | None = None
    ) -> ErrorCode:
        """A commit of some partitions, 9 for each, in the transaction of producer 7; its error."""
        to_commit = [(TopicName(name), [OffsetToCommit(one, 9, -1, "")]) for name, one in partitions]
        asked = CommitOffsets(
            G,
            to_commit,
            MemberId(member_id),
            epoch,
            None if instance_id is None else InstanceId(instance_id),
            knows_group_not_found=False,
            is_transactional=True,
        )
        result = self.ask(CommitTransactionalOffsets(asked, Producer(7, 0)))
        assert isinstance(result, CommitResult)
        return result.error


def joining(*names: str) -> dict[str, Any]:
    """What a member has to say when it joins."""
    return {
        "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
        "subscribed_topic_names": tuple(map(TopicName, names)),
        "reported": [],
    }


def beat(member_id: str, epoch: int, *, group_id: str = G, **more: Any) -> ConsumerHeartbeat:
    """A heartbeat that says nothing new, but for the changes; `reported` are pairs of name and partition."""
    reported = more.pop("reported", None)
    if reported is not None:
        reported = [(topic_id(name), [partition]) for name, partition in sorted(reported)]
    return ConsumerHeartbeat(
        group_id=GroupId(group_id),
        member_id=MemberId(member_id),
        member_epoch=epoch,
        reported=reported,
        client_id="client",
        client_host="/127.0.0.1",
        **more,
    )


def pairs(assigned: Mapping[TopicId, Any] | None) -> Pairs:
    """Partitions by name, without what else is said of them."""
    return frozenset(
        (topic.split(b"/")[0].decode(), partition)
        for topic, partitions in (assigned or {}).items()
        for partition in partitions
    )


@dataclass
class Client:
    """A member as a client library is one: it does what it is told, one heartbeat at a time."""

    h: ConsumerHarness
    member_id: str
    names: tuple[str, ...] = ("t",)
    more: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0
    owned: Pairs = frozenset()
    is_member: bool = False

    def beat(self) -> HeartbeatResult:
        """Join, or say what is owned; then own what the answer says, at once."""
        if self.epoch == 0:
            result = self.h.join(self.member_id, *self.names, **self.more)
        else:
            result = self.h.beat(self.member_id, self.epoch, reported=self.owned, **self.instance())
        self.take(result)
        return result

    def instance(self) -> dict[str, Any]:
        """Its instance id, if it has one."""
        return {"instance_id": self.more["instance_id"]} if "instance_id" in self.more else {}

    def take(self, result: HeartbeatResult) -> None:
        """Believe an answer; a fenced member has no partitions and joins again."""
        if result.error:
            assert result.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID), result
            self.epoch, self.owned, self.is_member = 0, frozenset(), False
            return
        self.epoch, self.is_member = result.member_epoch, True
        if result.assigned is not None:
            self.owned = pairs(result.assigned)


def settle(*clients: Client, rounds: int = 12) -> None:
    """Let all of them beat until nothing changes any more."""
    before = None
    for _ in range(rounds):
        for client in clients:
            client.beat()
        now = [(client.epoch, client.owned) for client in clients]
        if now == before:
            return
        before = now
    raise AssertionError(f"not settled after {rounds} rounds: {before}")


def check_invariants(group: ConsumerGroup) -> None:
    """What holds of every group at any time: its epochs are in order, and each partition has one owner."""
    assert group.assignment_epoch <= group.epoch
    owners: dict[tuple[TopicId, int], MemberId] = {}
    for member_id in group.members:
        current = group.member(member_id).current
        assert current.member_epoch <= group.assignment_epoch
        for partitions in (current.assigned, current.pending_revocation):
            for one, epochs in partitions.items():
                for partition, epoch in epochs.items():
                    assert (one, partition) not in owners, f"{owners[one, partition]} and {member_id}"
                    owners[one, partition] = member_id
                    assert epoch <= max(current.member_epoch, 0)
    assert owners == {
        (one, partition): owner
        for one, partitions in group.owners.items()
        for partition, owner in partitions.items()
    }

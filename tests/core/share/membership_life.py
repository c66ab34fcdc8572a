"""Share groups of a shard under test, on the harness of all groups, with a caller that initializes states."""

from __future__ import annotations

from typing import Any

from tests.core.harness import Harness
from tests.core.kinds_of_shard import share_groups

from headgate.core.share.membership.commands import (
    DescribedShareGroup,
    DescribeShareGroup,
    Initialization,
    PartitionsInitialized,
    ShareHeartbeat,
    ShareHeartbeatResult,
)
from headgate.core.share.membership.group import ShareGroup
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId, TopicName

G = GroupId("g")
HEARTBEAT_MS = 5_000
SESSION_MS = 45_000


def topic_id(name: str) -> TopicId:
    """The id of a topic of that name."""
    return TopicId(name.encode().ljust(16, b"."))


class ShareLife(Harness):
    """One shard with share groups; `initializes` tells whether requested states are initialized at once."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.initializes = True
        self.requested: list[Initialization] = []
        self.topics(t=2)

    def topics(self, **counts: int | None) -> None:
        """Create, change or delete (None) topics, by name with their numbers of partitions."""
        changes = [
            TopicChange(TopicName(name), None if count is None else KnownTopic(topic_id(name), count))
            for name, count in counts.items()
        ]
        self.ask(TopicsChanged(changes))
        self.advance(10)

    def heartbeat(
        self, member: str, epoch: int, *names: str, group: str = G, **more: Any
    ) -> ShareHeartbeatResult:
        """Send a heartbeat, with a subscription if there are names; the answer."""
        command = ShareHeartbeat(
            group_id=GroupId(group),
            member_id=MemberId(member),
            member_epoch=epoch,
            subscribed_topic_names=tuple(map(TopicName, names)) or None,
            **more,
        )
        result: ShareHeartbeatResult = self.ask(command)
        if result.initialization is not None:
            self.requested.append(result.initialization)
            if self.initializes:
                self.confirm(result.initialization)
        return result

    def confirm(self, done: Initialization) -> None:
        """Confirm that states are initialized."""
        partitions = {topic_id: one.partitions for topic_id, one in done.partitions.items()}
        assert self.ask(PartitionsInitialized(done.group_id, partitions)) == ErrorCode.NONE

    def join(self, member: str, *names: str, group: str = G) -> ShareHeartbeatResult:
        """Join, and send heartbeats until the member has its target assignment."""
        result = self.heartbeat(member, 0, *(names or ("t",)), group=group)
        assert result.error == ErrorCode.NONE, result.message
        return self.settle(member, result.member_epoch, group=group)

    def settle(self, member: str, epoch: int, group: str = G) -> ShareHeartbeatResult:
        """Send heartbeats until the epoch stays; the last answer, with the assignment that was last told."""
        assigned = None
        for _ in range(6):
            self.advance(HEARTBEAT_MS)
            result = self.heartbeat(member, epoch, group=group)
            assert result.error == ErrorCode.NONE, result.message
            assigned = assigned if result.assigned is None else result.assigned
            if result.member_epoch == epoch:
                result.assigned = assigned
                return result
            epoch = result.member_epoch
        raise AssertionError("the epoch rises for ever")

    def group(self, group: str = G) -> ShareGroup:
        """The group as the shard has it."""
        return share_groups(self.shard).by_id[GroupId(group)]

    def described(self, group: str = G) -> DescribedShareGroup:
        """The description of a group."""
        found: DescribedShareGroup = self.ask(DescribeShareGroup(GroupId(group)))
        return found

    def assigned(self, group: str = G) -> dict[str, list[tuple[str, int]]]:
        """The partitions of each member, as topic name and index."""
        described = self.described(group)
        return {
            member.member_id: [
                (described.topic_names[topic_id], index)
                for topic_id, indexes in member.assigned.items()
                for index in indexes
            ]
            for member in described.members
        }

"""The state of a consumer group, derived from its records: all of it is durable.

The last record of each key counts, whatever their order, so that a compacted log replays to the same group
too. Lookup structures (owners of partitions, members by instance id, subscriptions) are derived from the
records and kept with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from headgate.core.consumer.subscriptions import Subscriptions, count_down
from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.records import (
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecord,
    ConsumerRecordType,
    MemberState,
)
from headgate.records.consumer_model import (
    NEVER,
    NO_ASSIGNMENT_YET,
    UNKNOWN_EPOCH,
    OwnedPartitions,
    TargetPartitions,
)


class ConsumerState(Enum):
    """The state of a group, derived from its epochs, with its name in the protocol."""

    EMPTY = "Empty"
    """No members. The group may have offsets, which expire."""
    ASSIGNING = "Assigning"
    """The target assignment is older than the group epoch."""
    RECONCILING = "Reconciling"
    """Some members do not have their target assignment."""
    STABLE = "Stable"
    """All members have their target assignment."""
    DEAD = "Dead"
    """Deleted."""


class Member(NamedTuple):
    """A member: its metadata and its current assignment."""

    metadata: ConsumerGroupMemberMetadata
    current: ConsumerGroupCurrentAssignment

    @property
    def member_id(self) -> MemberId:
        """The member's id."""
        return self.metadata.member_id

    @property
    def member_epoch(self) -> int:
        """The member epoch."""
        return self.current.member_epoch

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.metadata.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has its target assignment of that epoch."""
        return self.current.state is MemberState.STABLE and self.current.member_epoch == assignment_epoch


def nothing_assigned(group_id: GroupId, member_id: MemberId) -> ConsumerGroupCurrentAssignment:
    """Return the current assignment of a new member."""
    return ConsumerGroupCurrentAssignment(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        previous_member_epoch=0,
        state=MemberState.STABLE,
        assigned={},
        pending_revocation={},
    )


class ConsumerGroup:
    """One group, changed only by `apply`."""

    __slots__ = (
        "assignor_votes",
        "classic_members",
        "classic_protocols",
        "currents",
        "group_id",
        "instances",
        "members",
        "metadata",
        "owners",
        "partition_metadata",
        "regexes",
        "subscriptions",
        "target_metadata",
        "targets",
    )

    def __init__(self, group_id: GroupId) -> None:
        """Create a group without records."""
        self.group_id = group_id
        self.metadata: ConsumerGroupMetadata | None = None
        self.target_metadata: ConsumerGroupTargetMetadata | None = None
        self.partition_metadata: ConsumerGroupPartitionMetadata | None = None
        self.members: dict[MemberId, ConsumerGroupMemberMetadata] = {}
        self.currents: dict[MemberId, ConsumerGroupCurrentAssignment] = {}
        self.targets: dict[MemberId, ConsumerGroupTargetMember] = {}
        self.regexes: dict[str, ConsumerGroupRegularExpression] = {}
        self.owners: dict[TopicId, dict[int, MemberId]] = {}
        """Owner of each partition, also of those pending revocation."""
        self.instances: dict[InstanceId, MemberId] = {}
        """Member ids of static members by their instance id."""
        self.subscriptions = Subscriptions(self.regexes)
        """The subscriptions of all members."""
        self.assignor_votes: Counter[str] = Counter()
        """Number of members that ask for an assignor."""
        self.classic_members = 0
        """Number of classic members."""
        self.classic_protocols: Counter[str] = Counter()
        """Number of classic members that support a protocol."""

    # --- what it is ---

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return 0 if self.metadata is None else self.metadata.epoch

    @property
    def metadata_hash(self) -> int:
        """Hash of the subscribed topics when the group epoch last rose."""
        return 0 if self.metadata is None else self.metadata.metadata_hash

    @property
    def assignment_epoch(self) -> int:
        """The group epoch of the target assignment."""
        return 0 if self.target_metadata is None else self.target_metadata.assignment_epoch

    @property
    def assignment_timestamp(self) -> int:
        """Time at which the target assignment was computed, in ms."""
        target = self.target_metadata
        return NO_ASSIGNMENT_YET if target is None else target.assignment_timestamp

    @property
    def last_removal_epoch(self) -> int:
        """Assignment epoch when a member id was last removed, or may have been."""
        if self.metadata is None:
            return 0
        epoch = self.metadata.last_removal_epoch
        return self.assignment_epoch if epoch == UNKNOWN_EPOCH else epoch

    @property
    def has_lost_members(self) -> bool:
        """Whether a member was removed since the target assignment: its member id may have been in that
        epoch.

        This follows from the group's own record, because a member's tombstone is compacted away.
        """
        return self.metadata is not None and self.last_removal_epoch >= self.assignment_epoch

    def at_epoch(
        self, epoch: int, metadata_hash: int, *, loses_member: bool = False, empty_since: Millis = NEVER
    ) -> ConsumerGroupMetadata:
        """Return the group's own record in an epoch; `loses_member`: a member id is removed with it."""
        return ConsumerGroupMetadata(
            group_id=self.group_id,
            epoch=epoch,
            metadata_hash=metadata_hash,
            empty_since=empty_since,
            last_removal_epoch=self.assignment_epoch if loses_member else self.last_removal_epoch,
        )

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def empty_since(self) -> Millis:
        """System time at which the last member was removed; NEVER if there are members, or it is unknown.

        Kafka does not store it, but raises the group epoch then: it is the time of that record.
        """
        if self.metadata is None or self.members:
            return NEVER
        return self.metadata.written if self.metadata.empty_since == NEVER else self.metadata.empty_since

    @property
    def own_record(self) -> ConsumerGroupMetadata | None:
        """The group's own record, with the time since which the group is empty."""
        if self.metadata is None or self.metadata.empty_since == self.empty_since:
            return self.metadata
        return replace(self.metadata, empty_since=self.empty_since)

    @property
    def is_without_records(self) -> bool:
        """Whether the group has no record left."""
        return not (
            self.metadata
            or self.target_metadata
            or self.partition_metadata
            or self.members
            or self.currents
            or self.targets
            or self.regexes
        )

    @property
    def state(self) -> ConsumerState:
        """The state of the group."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(self.member(one).is_reconciled_to(self.assignment_epoch) for one in self.members):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    # --- members ---

    def member(self, member_id: MemberId) -> Member:
        """Return the member of that id, which must exist."""
        current = self.currents.get(member_id)
        return Member(self.members[member_id], current or nothing_assigned(self.group_id, member_id))

    def find_member(self, member_id: MemberId) -> Member | None:
        """Return the member of that id; None if there is none."""
        return self.member(member_id) if member_id in self.members else None

    def find_static(self, instance_id: InstanceId) -> Member | None:
        """Return the member with an instance id; None if there is none."""
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.find_member(member_id)

    def supports_classic(self, protocol_names: Iterable[str]) -> bool:
        """Return whether all classic members support one of these protocols."""
        return any(self.classic_protocols[name] == self.classic_members for name in protocol_names)

    def target_of(self, member_id: MemberId) -> TargetPartitions:
        """Return the target assignment of a member."""
        target = self.targets.get(member_id)
        return {} if target is None else target.partitions

    def is_subscribed_to(self, topic: TopicName) -> bool:
        """Return whether a member subscribes to a topic."""
        return self.subscriptions.is_subscribed_to(topic)

    # --- records ---

    def apply(self, record: ConsumerRecord) -> None:
        """Apply a record."""
        match record:
            case ConsumerGroupTargetMember(member_id=member_id):
                self.targets[member_id] = record
            case ConsumerGroupCurrentAssignment(member_id=member_id):
                self._set_current(member_id, record)
            case ConsumerGroupMetadata():
                self.metadata = record
            case ConsumerGroupTargetMetadata():
                self.target_metadata = record
            case ConsumerGroupPartitionMetadata():
                self.partition_metadata = record
            case ConsumerGroupMemberMetadata(member_id=member_id):
                self._set_member(member_id, record)
            case ConsumerGroupRegularExpression(regular_expression=regex):
                topics = tuple(sorted(record.topics))  # Kafka does not sort them
                self.regexes[regex] = record if topics == record.topics else replace(record, topics=topics)
            case ConsumerGroupTombstone():
                self._remove(record)

    def _remove(self, tombstone: ConsumerGroupTombstone) -> None:
        match tombstone.record_type:
            case ConsumerRecordType.GROUP:
                self.metadata = None
            case ConsumerRecordType.TARGET_METADATA:
                self.target_metadata = None
            case ConsumerRecordType.PARTITION_METADATA:
                self.partition_metadata = None
            case ConsumerRecordType.MEMBER:
                self._set_member(MemberId(tombstone.name), None)
            case ConsumerRecordType.CURRENT_ASSIGNMENT:
                self._set_current(MemberId(tombstone.name), None)
            case ConsumerRecordType.TARGET_MEMBER:
                self.targets.pop(MemberId(tombstone.name), None)
            case ConsumerRecordType.REGULAR_EXPRESSION:
                self.regexes.pop(tombstone.name, None)

    def current_record(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """Return the current record with the key of `record`; None if there is none."""
        match record:
            case ConsumerGroupMetadata():
                return self.own_record
            case ConsumerGroupTargetMetadata():
                return self.target_metadata
            case ConsumerGroupPartitionMetadata():
                return self.partition_metadata
            case ConsumerGroupMemberMetadata(member_id=member_id):
                return self.members.get(member_id)
            case ConsumerGroupCurrentAssignment(member_id=member_id):
                return self.currents.get(member_id)
            case ConsumerGroupTargetMember(member_id=member_id):
                return self.targets.get(member_id)
            case ConsumerGroupRegularExpression(regular_expression=regex):
                return self.regexes.get(regex)
            case ConsumerGroupTombstone(record_type=record_type, name=name):
                return self._current_record_of(record_type, name)

    def _current_record_of(self, record_type: ConsumerRecordType, name: str) -> ConsumerRecord | None:
        match record_type:
            case ConsumerRecordType.GROUP:
                return self.own_record
            case ConsumerRecordType.TARGET_METADATA:
                return self.target_metadata
            case ConsumerRecordType.PARTITION_METADATA:
                return self.partition_metadata
            case ConsumerRecordType.MEMBER:
                return self.members.get(MemberId(name))
            case ConsumerRecordType.CURRENT_ASSIGNMENT:
                return self.currents.get(MemberId(name))
            case ConsumerRecordType.TARGET_MEMBER:
                return self.targets.get(MemberId(name))
            case ConsumerRecordType.REGULAR_EXPRESSION:
                return self.regexes.get(name)

    def records(self) -> Iterator[ConsumerRecord]:
        """Yield every record of the group, the group's own one last."""
        yield from self.regexes.values()
        yield from self.currents.values()
        yield from self.targets.values()
        yield from self.members.values()
        for record in (self.partition_metadata, self.target_metadata, self.own_record):
            if record is not None:
                yield record

    # --- derived state ---

    def _set_member(self, member_id: MemberId, member: ConsumerGroupMemberMetadata | None) -> None:
        old = self.members.pop(member_id, None)
        if member is not None:
            member = self.members[member_id] = self.subscriptions.add(member)
        if old is not None:
            self._forget(old)
        if member is not None:
            self._remember(member)

    def _remember(self, member: ConsumerGroupMemberMetadata) -> None:
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if member.server_assignor is not None:
            self.assignor_votes[member.server_assignor] += 1
        if member.classic is not None:
            self.classic_members += 1
            self.classic_protocols.update(name for name, _ in member.classic.protocols)

    def _forget(self, member: ConsumerGroupMemberMetadata) -> None:
        self.subscriptions.remove(member)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        if member.server_assignor is not None:
            count_down(self.assignor_votes, member.server_assignor)
        if member.classic is not None:
            self.classic_members -= 1
            for name, _ in member.classic.protocols:
                count_down(self.classic_protocols, name)

    def _set_current(self, member_id: MemberId, current: ConsumerGroupCurrentAssignment | None) -> None:
        old = self.currents.pop(member_id, None)
        if old is not None:
            self._release(member_id, old.assigned)
            self._release(member_id, old.pending_revocation)
        if current is not None:
            self.currents[member_id] = current
            for partitions in (current.assigned, current.pending_revocation):
                for topic_id, epochs in partitions.items():
                    self.owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member_id))

    def _release(self, member_id: MemberId, partitions: OwnedPartitions) -> None:
        for topic_id, epochs in partitions.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for partition in epochs:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[topic_id]


def tombstone_of(record: ConsumerRecord) -> ConsumerGroupTombstone:
    """Return the tombstone of a record."""
    kind = ConsumerRecordType
    group_id = record.group_id
    match record:
        case ConsumerGroupMetadata():
            return ConsumerGroupTombstone(kind.GROUP, group_id)
        case ConsumerGroupTargetMetadata():
            return ConsumerGroupTombstone(kind.TARGET_METADATA, group_id)
        case ConsumerGroupPartitionMetadata():
            return ConsumerGroupTombstone(kind.PARTITION_METADATA, group_id)
        case ConsumerGroupMemberMetadata(member_id=member_id):
            return ConsumerGroupTombstone(kind.MEMBER, group_id, member_id)
        case ConsumerGroupCurrentAssignment(member_id=member_id):
            return ConsumerGroupTombstone(kind.CURRENT_ASSIGNMENT, group_id, member_id)
        case ConsumerGroupTargetMember(member_id=member_id):
            return ConsumerGroupTombstone(kind.TARGET_MEMBER, group_id, member_id)
        case ConsumerGroupRegularExpression(regular_expression=regex):
            return ConsumerGroupTombstone(kind.REGULAR_EXPRESSION, group_id, regex)
        case ConsumerGroupTombstone():
            return record

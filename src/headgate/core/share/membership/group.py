"""The state of a share group, derived from its records: all of it is durable.

The last record of each key counts, whatever their order, so that a compacted log replays to the same group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from headgate.domain.ids import GroupId, MemberId, TopicId, TopicName
from headgate.records.consumer_model import NO_ASSIGNMENT_YET, TargetPartitions
from headgate.records.share_group_model import (
    ShareGroupCurrentAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareGroupStatePartitions,
    ShareGroupTargetMember,
    ShareGroupTargetMetadata,
    ShareGroupTombstone,
)

FIRST_EPOCH = 1
"""Epoch of a group that has not assigned anything yet."""


class ShareGroupState(Enum):
    """The state of a group, with its name in the protocol."""

    EMPTY = "Empty"
    """No members. The group stays until it is deleted (F20)."""
    STABLE = "Stable"
    """Members share partitions, so none waits for another."""


class ShareMember(NamedTuple):
    """A member: its metadata and its current assignment."""

    metadata: ShareGroupMemberMetadata
    current: ShareGroupCurrentAssignment


class ShareGroup:
    """One group, changed only by `apply`; but for `has_pending_assignment`."""

    __slots__ = (
        "_readers",
        "currents",
        "group_id",
        "has_pending_assignment",
        "members",
        "metadata",
        "states",
        "target_metadata",
        "targets",
        "topics",
    )

    def __init__(self, group_id: GroupId) -> None:
        """Create a group without records."""
        self.group_id = group_id
        self.metadata: ShareGroupMetadata | None = None
        self.target_metadata: ShareGroupTargetMetadata | None = None
        self.members: dict[MemberId, ShareGroupMemberMetadata] = {}
        self.currents: dict[MemberId, ShareGroupCurrentAssignment] = {}
        self.targets: dict[MemberId, ShareGroupTargetMember] = {}
        self.states: ShareGroupStatePartitions | None = None
        """The share-partitions that have a state, or will get or lose it."""
        self.topics: frozenset[TopicName] = frozenset()
        """The topics that members subscribe to."""
        self._readers: Counter[TopicName] = Counter()
        self.has_pending_assignment = False
        """Whether initialized partitions may differ from those that the target assigns. A heartbeat that has
        compared them clears it: after a load they are compared once more.
        """

    # --- what it is ---

    @property
    def exists(self) -> bool:
        """Whether it is a group. Kafka writes only the record of share-partitions for a group whose start
        offsets are set before its first member joins.
        """
        return self.metadata is not None or self.states is not None

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self._unrecorded_epoch if self.metadata is None else self.metadata.epoch

    @property
    def metadata_hash(self) -> int:
        """Hash of the subscribed topics when the group epoch last rose."""
        return 0 if self.metadata is None else self.metadata.metadata_hash

    @property
    def assignment_epoch(self) -> int:
        """The group epoch of the target assignment."""
        target = self.target_metadata
        return self._unrecorded_epoch if target is None else target.assignment_epoch

    @property
    def _unrecorded_epoch(self) -> int:
        """The epochs of a group that has no record of them."""
        return 0 if self.states is None else FIRST_EPOCH

    @property
    def assignment_timestamp(self) -> int:
        """Time at which the target assignment was computed, in ms."""
        target = self.target_metadata
        return NO_ASSIGNMENT_YET if target is None else target.assignment_timestamp

    @property
    def state(self) -> ShareGroupState:
        """Empty or stable."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def states_now(self) -> ShareGroupStatePartitions:
        """The record of share-partitions, an empty one if there is none."""
        return self.states or ShareGroupStatePartitions(group_id=self.group_id)

    @property
    def is_without_records(self) -> bool:
        """Whether the group has no record left."""
        return not (
            self.metadata
            or self.target_metadata
            or self.states
            or self.members
            or self.currents
            or self.targets
        )

    def find_member(self, member_id: MemberId) -> ShareMember | None:
        """Return the member; None if there is none."""
        metadata = self.members.get(member_id)
        if metadata is None:
            return None
        current = self.currents.get(member_id)
        return ShareMember(metadata, current or nothing_assigned(self.group_id, member_id))

    def target_of(self, member_id: MemberId) -> TargetPartitions:
        """Return a member's target assignment."""
        target = self.targets.get(member_id)
        return {} if target is None else target.partitions

    def topics_after(self, gone: frozenset[MemberId], new: tuple[TopicName, ...]) -> frozenset[TopicName]:
        """Return the topics that members subscribe to after some are removed and one with `new` is added."""
        counts = Counter(self._readers)
        for member_id in gone:
            if member_id in self.members:
                counts.subtract(self.members[member_id].subscribed_topic_names)
        counts.update(new)
        return frozenset(name for name, count in counts.items() if count > 0)

    # --- records ---

    def apply(self, record: ShareGroupRecord) -> None:
        """Apply a record of this group."""
        match record:
            case ShareGroupMetadata():
                self.metadata = record
            case ShareGroupTargetMetadata():
                self.target_metadata = record
                self.has_pending_assignment = True
            case ShareGroupStatePartitions():
                self.states = record
                self.has_pending_assignment = True
            case ShareGroupMemberMetadata(member_id=member_id):
                self._set_member(member_id, record)
            case ShareGroupTargetMember(member_id=member_id):
                self.targets[member_id] = record
                self.has_pending_assignment = True
            case ShareGroupCurrentAssignment(member_id=member_id):
                self.currents[member_id] = record
            case ShareGroupTombstone(record_type, _, name):
                self._remove(record_type, MemberId(name))

    def _remove(self, record_type: ShareGroupRecordType, member_id: MemberId) -> None:
        match record_type:
            case ShareGroupRecordType.GROUP:
                self.metadata = None
            case ShareGroupRecordType.TARGET_METADATA:
                self.target_metadata = None
            case ShareGroupRecordType.STATE_PARTITIONS:
                self.states = None
                self.has_pending_assignment = True
            case ShareGroupRecordType.MEMBER:
                self._set_member(member_id, None)
            case ShareGroupRecordType.TARGET_MEMBER:
                self.targets.pop(member_id, None)
                self.has_pending_assignment = True
            case ShareGroupRecordType.CURRENT_ASSIGNMENT:
                self.currents.pop(member_id, None)

    def _set_member(self, member_id: MemberId, member: ShareGroupMemberMetadata | None) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self._readers.subtract(old.subscribed_topic_names)
        if member is not None:
            self.members[member_id] = member
            self._readers.update(member.subscribed_topic_names)
        if old is None or member is None or old.subscribed_topic_names != member.subscribed_topic_names:
            self._readers += Counter()  # without those at zero
            self.topics = frozenset(self._readers)
            self.has_pending_assignment = True

    def current_record(self, record: ShareGroupRecord) -> ShareGroupRecord | None:
        """Return the current record with the key of `record`; None if there is none."""
        tombstone = record if isinstance(record, ShareGroupTombstone) else tombstone_of(record)
        member_id = MemberId(tombstone.name)
        match tombstone.record_type:
            case ShareGroupRecordType.GROUP:
                return self.metadata
            case ShareGroupRecordType.TARGET_METADATA:
                return self.target_metadata
            case ShareGroupRecordType.STATE_PARTITIONS:
                return self.states
            case ShareGroupRecordType.MEMBER:
                return self.members.get(member_id)
            case ShareGroupRecordType.TARGET_MEMBER:
                return self.targets.get(member_id)
            case ShareGroupRecordType.CURRENT_ASSIGNMENT:
                return self.currents.get(member_id)

    def records(self) -> Iterator[ShareGroupRecord]:
        """Yield every record of the group, the group's own one last."""
        yield from self.currents.values()
        yield from self.targets.values()
        yield from self.members.values()
        for record in (self.states, self.target_metadata, self.metadata):
            if record is not None:
                yield record


def nothing_assigned(group_id: GroupId, member_id: MemberId) -> ShareGroupCurrentAssignment:
    """Return the current assignment of a new member."""
    return ShareGroupCurrentAssignment(
        group_id=group_id, member_id=member_id, member_epoch=0, previous_member_epoch=0, assigned={}
    )


def tombstone_of(record: ShareGroupRecord) -> ShareGroupTombstone:
    """Return the tombstone of a record."""
    kind, group_id = ShareGroupRecordType, record.group_id
    match record:
        case ShareGroupMetadata():
            return ShareGroupTombstone(kind.GROUP, group_id)
        case ShareGroupTargetMetadata():
            return ShareGroupTombstone(kind.TARGET_METADATA, group_id)
        case ShareGroupStatePartitions():
            return ShareGroupTombstone(kind.STATE_PARTITIONS, group_id)
        case ShareGroupMemberMetadata(member_id=member_id):
            return ShareGroupTombstone(kind.MEMBER, group_id, member_id)
        case ShareGroupTargetMember(member_id=member_id):
            return ShareGroupTombstone(kind.TARGET_MEMBER, group_id, member_id)
        case ShareGroupCurrentAssignment(member_id=member_id):
            return ShareGroupTombstone(kind.CURRENT_ASSIGNMENT, group_id, member_id)
        case ShareGroupTombstone():
            return record


def assigned_partitions(targets: dict[MemberId, ShareGroupTargetMember]) -> dict[TopicId, set[int]]:
    """Return the partitions that some member has in its target assignment."""
    found: dict[TopicId, set[int]] = {}
    for target in targets.values():
        for topic_id, partitions in target.partitions.items():
            found.setdefault(topic_id, set()).update(partitions)
    return found

"""Changes of a shard of every kind, and all that a shard remembers: for tests that compare shards."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.columns import column_batch
from tests.core.kinds_of_shard import classic_groups, consumer_groups

from headgate.core.offsets.table import OffsetTable
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.records import (
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecordType,
    GroupMetadata,
    GroupTombstone,
    MemberState,
    OffsetCommit,
    OffsetTombstone,
    UnknownRecord,
)

GROUPS = ["", "g", "g1", "group-of-some-length", "grüppe"]
TOPICS = ["t", "t2", "a-topic-of-some-length", "täma"]
groups = st.sampled_from(GROUPS).map(GroupId)
topics = st.sampled_from(TOPICS).map(TopicName)
partitions = st.one_of(st.integers(0, 5), st.sampled_from([262_143, 262_144, 2**31 - 1, -1]))
int64s = st.integers(-(2**63), 2**63 - 1)
commits = st.builds(
    OffsetCommit,
    groups,
    topics,
    partitions,
    int64s,
    st.integers(-1, 2**31 - 1),
    st.sampled_from(["", "", "", "note", "nöte", "x" * 70]),
    st.sampled_from([Millis(7), Millis(2**40)]),
    st.sampled_from([Millis(-1)] * 6 + [Millis(5)]),
)
wide = st.builds(
    lambda group, topic, count, offset: column_batch(
        group, topic, np.arange(count), np.arange(count) * 3 + offset, np.full(count, 4), "", Millis(9)
    ),
    groups,
    topics,
    st.sampled_from([1, 8, 40, 100]),
    st.integers(0, 10**6),
)
group_records = st.one_of(
    st.builds(
        lambda group, generation: GroupMetadata(
            group, "consumer", generation, "range", MemberId("m"), Millis(3)
        ),
        groups,
        st.integers(0, 9),
    ),
    st.builds(GroupTombstone, groups),
    st.just(UnknownRecord(99, b"\x00\x63key", b"value")),
    st.just(UnknownRecord(99, b"\x00\x63key", None)),
)
T1, T2 = TopicId(b"1" * 16), TopicId(b"2" * 16)
members = st.sampled_from(["m1", "m2"]).map(MemberId)
epochs = st.integers(1, 9)


def offsets_of_topic(table: OffsetTable, topic: TopicName) -> list[tuple[GroupId, int]]:
    """The groups and partitions that have an offset in a topic, in order."""
    looking, found = table.offsets_of_topic(topic), list[tuple[GroupId, int]]()
    while not looking.is_over:
        found += looking.step(3)
    return sorted(found)


def _current(group: GroupId, member: MemberId, epoch: int) -> ConsumerGroupCurrentAssignment:
    # Each member has partitions of its own, as in any group that is not broken.
    partitions = {1: epoch} if member == "m1" else {2: epoch, 3: epoch}
    return ConsumerGroupCurrentAssignment(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=MemberState.STABLE,
        assigned={T1: partitions},
        pending_revocation={},
    )


consumer_records = st.one_of(
    st.builds(lambda group, epoch: ConsumerGroupMetadata(group_id=group, epoch=epoch), groups, epochs),
    st.builds(
        lambda group, epoch: ConsumerGroupTargetMetadata(group_id=group, assignment_epoch=epoch),
        groups,
        epochs,
    ),
    st.builds(
        lambda group, member, instance: ConsumerGroupMemberMetadata(
            group_id=group,
            member_id=member,
            instance_id=instance,
            subscribed_topic_names=(TopicName("t"),),
            subscribed_topic_regex="t.*" if instance else None,
        ),
        groups,
        members,
        st.sampled_from([None, InstanceId("i")]),
    ),
    st.builds(
        lambda group, member, topic: ConsumerGroupTargetMember(
            group_id=group, member_id=member, partitions={topic: (1, 2)}
        ),
        groups,
        members,
        st.sampled_from([T1, T2]),
    ),
    st.builds(_current, groups, members, epochs),
    st.builds(
        lambda group, version: ConsumerGroupRegularExpression(
            group_id=group,
            regular_expression="t.*",
            topics=(TopicName("t"),),
            version=version,
            timestamp=Millis(4),
        ),
        groups,
        epochs,
    ),
    st.builds(
        lambda kind, group, member: ConsumerGroupTombstone(
            kind, group, member if "MEMBER" in kind.name or "CURRENT" in kind.name else ""
        ),
        st.sampled_from(
            [
                ConsumerRecordType.GROUP,
                ConsumerRecordType.MEMBER,
                ConsumerRecordType.CURRENT_ASSIGNMENT,
                ConsumerRecordType.TARGET_MEMBER,
                ConsumerRecordType.TARGET_METADATA,
            ]
        ),
        groups,
        members,
    ),
)
tombstones = st.builds(OffsetTombstone, groups, topics, partitions)
changes = st.one_of(commits, commits, commits, tombstones, wide, group_records, consumer_records)


def state_of(shard: GroupShard) -> dict[str, Any]:
    """All that a shard remembers."""
    table = shard.offsets
    return {
        "offsets": {
            (group, topic, partition): stored
            for group in GROUPS
            for topic, partition, stored in table.offsets_of(GroupId(group))
        },
        "by key": [
            table.get(GroupId(group), TopicName(topic), partition)
            for group in GROUPS
            for topic in TOPICS
            for partition in (*range(6), 99, 262_143, 262_144, 2**31 - 1, -1)
        ],
        "by topic": [offsets_of_topic(table, TopicName(topic)) for topic in TOPICS],
        "groups": sorted(table.group_ids()),
        "counts": (len(table), table.group_count),
        "recorded": classic_groups(shard).recorded,
        "consumer": {
            group_id: sorted(map(repr, group.records()))
            for group_id, group in consumer_groups(shard).by_id.items()
        },
        "pending": sorted(shard.pending.copy()),
        "stable": [
            (group, topic, sorted(shard.pending.partitions_of(GroupId(group), TopicName(topic))))
            for group in GROUPS
            for topic in TOPICS
            if shard.pending.has_group(GroupId(group))
        ],
        "owners": {group_id: group.owners for group_id, group in consumer_groups(shard).by_id.items()},
    }

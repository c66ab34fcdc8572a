"""What groups know of topics and settings, and from when on."""

from __future__ import annotations

from tests.server.disk import DATA_DIR, new_disk

from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.domain.settings import Settings
from headgate.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetMetadata,
    Record,
)
from headgate.server.group_surroundings import GroupSurroundings
from headgate.topics.topics import Topics

NOW = Millis(1_700_000_000_000)
G = GroupId("g")


def test_sessions_that_begin_with_a_load_are_as_long_as_the_group_has_it() -> None:
    """The settings apply from the load on: a restart does not remove a silent member early."""
    files = new_disk()
    topics = Topics.open(files, DATA_DIR, Settings(), NOW)
    topics.change_settings([topics.group_change(G, {"consumer.session.timeout.ms": "59000"})], NOW)
    shard = GroupSurroundings(topics).new_shard(NOW)
    records: tuple[Record, ...] = (
        ConsumerGroupMemberMetadata(group_id=G, member_id=MemberId("a")),
        ConsumerGroupMetadata(group_id=G, epoch=1),
        ConsumerGroupTargetMetadata(group_id=G, assignment_epoch=1),
    )
    for position, record in enumerate(records):
        shard.apply(record, position)
    shard.loaded(NOW)
    assert shard.next_deadline() == NOW + 59_000
    topics.close()

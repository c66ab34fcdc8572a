"""`headgate.admin` against a real server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from tests.admin.conftest import FLIGHTS, PARTITIONS, RECORDS, START_MS

from headgate.admin import (
    Admin,
    CommittedOffset,
    GroupIsActive,
    NothingToReset,
    OffsetsMoved,
    PartlyRefused,
    RequestRefused,
    ShiftBy,
    ToDatetime,
    ToEarliest,
    TopicPartition,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName

FIRST, SECOND, THIRD = PARTITIONS
NOWHERE = TopicPartition(FLIGHTS, 99)
pytestmark = pytest.mark.timeout(60)


def test_what_is_committed_is_fetched_with_all_that_was_given(admin: Admin, group: str) -> None:
    """A bare number, and an offset with leader epoch and metadata; partitions without one are left out."""
    with_metadata = CommittedOffset(7, 3, "näher")
    admin.alter_offsets(group, {FIRST: 4, SECOND: with_metadata})
    both = {FIRST: CommittedOffset(4), SECOND: with_metadata}
    assert admin.committed_offsets(group) == both
    assert admin.committed_offsets(group, [THIRD, SECOND]) == {SECOND: with_metadata}
    assert admin.committed_offsets("nobody") == {}


def test_what_python_would_take_without_a_word_is_refused(admin: Admin, group: str) -> None:
    """A bare string is no list of groups, of states or of topics; no record has an offset below 0."""
    admin.alter_offsets(group, {FIRST: 4})
    of_strings: list[Callable[[Any], Any]] = [
        admin.delete_groups,
        admin.describe_groups,
        admin.list_groups,
        lambda places: admin.offset_history(group, places),
        lambda places: admin.undo(group, places),
    ]
    for call in of_strings:
        with pytest.raises(TypeError, match="for instance"):
            call(group)
    with pytest.raises(ValueError, match="the offset of flights-0 must be 0 or more, not -5"):
        admin.alter_offsets(group, {FIRST: -5})
    with pytest.raises(ValueError, match="not -1"):
        admin.alter_offsets(group, {FIRST: CommittedOffset(-1)})
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(4)}


def test_a_hundred_refusals_are_told_in_short(admin: Admin, group: str) -> None:
    """All are in the error, the first few in its message."""
    nowhere = {TopicPartition(TopicName("nowhere"), index): index for index in range(100)}
    with pytest.raises(PartlyRefused) as refused:
        admin.alter_offsets(group, nowhere)
    assert len(refused.value.refused) == 100
    assert "; and 97 more" in str(refused.value)


def test_partitions_that_are_not_there_are_refused_and_the_others_set(admin: Admin, group: str) -> None:
    """The error says which."""
    with pytest.raises(PartlyRefused) as refused:
        admin.alter_offsets(group, {FIRST: 1, NOWHERE: 1})
    (error,) = refused.value.refused.values()
    assert set(refused.value.refused) == {NOWHERE}
    assert error.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(1)}


def test_a_group_is_described_with_its_members_and_what_they_read(
    admin: Admin, group: str, member: Consumer
) -> None:
    """A classic group of one, by Kafka's names; one that is not there is None."""
    described = admin.describe_groups([group, "nobody"])
    assert described.keys() == {group, "nobody"}
    assert admin.describe_group("nobody") is None
    found = admin.describe_group(group)
    assert found is not None
    assert (found.group_type, found.state, found.assignor) == ("Classic", "Stable", "range")
    assert found.is_active
    (reader,) = found.members
    assert (reader.client_id, reader.host, reader.member_id) == ("reader", "/127.0.0.1", member.memberid())
    assert reader.assignment == tuple(PARTITIONS)


def test_groups_are_listed_by_state_and_type(admin: Admin, group: str, member: Consumer) -> None:
    """Filters are by Kafka's names."""
    admin.alter_offsets("only-offsets", {FIRST: 1})
    listed = {str(listing.group_id): listing for listing in admin.list_groups()}
    assert (listed[group].state, listed[group].group_type) == ("Stable", "Classic")
    assert group in [each.group_id for each in admin.list_groups(states=["stable"])]
    assert group not in [each.group_id for each in admin.list_groups(states=["Empty"])]
    assert "only-offsets" in [each.group_id for each in admin.list_groups(["Empty"], ["classic"])]
    assert admin.list_groups(types=["consumer"]) == []


def test_a_group_of_the_new_protocol_is_described_listed_and_left_alone(
    admin: Admin, group: str, consumer_member: Consumer
) -> None:
    """With its epochs and what each member is to read; while it has members it is not reset."""
    found = admin.describe_group(group)
    assert found is not None
    assert (found.group_type, found.state, found.assignor) == ("Consumer", "Stable", "uniform")
    assert found.group_epoch == found.assignment_epoch == found.members[0].member_epoch
    (reader,) = found.members
    assert (reader.client_id, reader.host) == ("reader", "/127.0.0.1")
    assert reader.assignment == reader.target == tuple(PARTITIONS)
    assert group in [each.group_id for each in admin.list_groups(["Stable"], ["Consumer"])]
    assert [each.member for each in admin.positions(group)] == [reader] * 3
    with pytest.raises(GroupIsActive, match="state Stable, 1 member"):
        admin.reset_offsets(group, PARTITIONS, ToEarliest())


def test_a_group_of_the_new_protocol_is_reset_on_condition_when_it_is_empty(
    admin: Admin, group: str, consumer_member: Consumer
) -> None:
    """As any other, and then deleted."""
    consumer_member.commit(offsets=[_kafka(FIRST, 4)], asynchronous=False)
    consumer_member.close()
    found = admin.describe_group(group)
    assert found is not None
    assert (found.group_type, found.state, found.is_active) == ("Consumer", "Empty", False)
    admin.reset_offsets(group, [FIRST], ShiftBy(2))
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(6)}
    with pytest.raises(OffsetsMoved) as moved:
        admin.alter_offsets(group, {FIRST: 1}, expected={FIRST: 4})
    assert moved.value.current == {FIRST: 6}
    admin.delete_groups([group])
    assert admin.describe_group(group) is None


def test_positions_tell_lag_and_reader(admin: Admin, group: str, member: Consumer) -> None:
    """Also of a partition that is read and never committed, and of one that is no more."""
    member.commit(offsets=[_kafka(FIRST, 4), _kafka(SECOND, 10)], asynchronous=False)
    positions = admin.positions(group)
    assert [each.partition for each in positions] == PARTITIONS
    assert [each.lag for each in positions] == [6, 0, None]
    assert [each.log_end_offset for each in positions] == [RECORDS] * 3
    assert {each.member.client_id for each in positions if each.member} == {"reader"}


def test_an_active_group_is_left_alone(admin: Admin, group: str, member: Consumer) -> None:
    """Its members would not hear of it."""
    for change in (
        lambda: admin.alter_offsets(group, {FIRST: 1}),
        lambda: admin.reset_offsets(group, PARTITIONS, ToEarliest()),
        lambda: admin.plan_reset(group, PARTITIONS, ToEarliest()),
    ):
        with pytest.raises(GroupIsActive, match="state Stable, 1 member"):
            change()
    with pytest.raises(PartlyRefused, match="NON_EMPTY_GROUP"):
        admin.delete_groups([group])
    with pytest.raises(PartlyRefused, match="GROUP_SUBSCRIBED_TO_TOPIC"):
        admin.delete_offsets(group, [FIRST])
    assert admin.committed_offsets(group) == {}


def test_a_reset_is_planned_and_done(admin: Admin, group: str) -> None:
    """Planning changes nothing; both say what was, what comes, and what was moved into the log."""
    admin.alter_offsets(group, {FIRST: 4, SECOND: 9})
    planned = admin.plan_reset(group, [SECOND, FIRST], ShiftBy(3))
    assert [(each.partition, each.offset, each.asked_for) for each in planned] == [
        (FIRST, 7, 7),
        (SECOND, RECORDS, 12),
    ]
    assert admin.committed_offsets(group)[FIRST].offset == 4
    assert admin.reset_offsets(group, [SECOND, FIRST], ShiftBy(3)) == planned
    assert {each.partition: each.offset for each in planned} == {
        partition: committed.offset for partition, committed in admin.committed_offsets(group).items()
    }
    in_time = admin.plan_reset(group, PARTITIONS, ToDatetime(Millis(START_MS + 2500)))
    assert [each.offset for each in in_time] == [3, 3, 3]
    assert in_time[2].committed is None


def test_offsets_are_set_on_condition_of_what_they_are(admin: Admin, group: str) -> None:
    """All of them, or none and an error that carries what is committed."""
    admin.alter_offsets(group, {FIRST: 4, SECOND: 9}, expected={FIRST: None, SECOND: None})
    with pytest.raises(OffsetsMoved) as moved:
        admin.alter_offsets(group, {FIRST: 5, SECOND: 5}, expected={FIRST: 3, SECOND: 9})
    assert moved.value.current == {FIRST: 4}
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(4), SECOND: CommittedOffset(9)}


def test_a_reset_is_done_only_from_where_it_was_planned(admin: Admin, group: str) -> None:
    """Whoever moved one offset meanwhile stops all of it."""
    admin.alter_offsets(group, {FIRST: 4, SECOND: 9})
    planned = admin.plan_reset(group, PARTITIONS, ToEarliest())
    admin.alter_offsets(group, {THIRD: 2})
    with pytest.raises(OffsetsMoved, match="flights-2 is at 2, not at no offset"):
        admin.execute_reset(group, planned)
    assert {each.partition: each.committed.offset for each in admin.positions(group) if each.committed} == {
        FIRST: 4,
        SECOND: 9,
        THIRD: 2,
    }
    admin.execute_reset(group, admin.plan_reset(group, PARTITIONS, ToEarliest()))
    assert set(admin.committed_offsets(group).values()) == {CommittedOffset(0)}


def test_what_cannot_be_reset_is_refused(admin: Admin, group: str) -> None:
    """Nothing to shift from, no partitions at all, partitions that are not there."""
    with pytest.raises(NothingToReset, match="flights-0"):
        admin.plan_reset(group, [FIRST], ShiftBy(1))
    with pytest.raises(NothingToReset, match="no partitions"):
        admin.plan_reset(group, [], ToEarliest())
    with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.plan_reset(group, [NOWHERE], ToEarliest())


def test_offsets_and_groups_are_deleted(admin: Admin, group: str) -> None:
    """What is refused is told; what can be is done all the same."""
    admin.alter_offsets(group, {FIRST: 4, SECOND: 9})
    with pytest.raises(PartlyRefused) as refused:
        admin.delete_offsets(group, [FIRST, NOWHERE])
    assert set(refused.value.refused) == {NOWHERE}
    assert set(admin.committed_offsets(group)) == {SECOND}
    with pytest.raises(PartlyRefused) as missing:
        admin.delete_groups(["nobody", group])
    assert set(missing.value.refused) == {"nobody"}
    assert admin.describe_group(group) is None
    with pytest.raises(RequestRefused, match="GROUP_ID_NOT_FOUND"):
        admin.delete_offsets(group, [FIRST])


def _kafka(partition: TopicPartition, offset: int) -> KafkaTopicPartition:
    return KafkaTopicPartition(partition.topic, partition.partition, offset)

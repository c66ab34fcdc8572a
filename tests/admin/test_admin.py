"""`headgate.admin` with a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from tests.admin.conftest import FLIGHTS, PARTITIONS, RECORDS, START_MS

import headgate.admin
from headgate.admin import (
    Admin,
    AsyncAdmin,
    CommittedOffset,
    GroupIsActive,
    NewTopic,
    NothingToReset,
    OffsetsMoved,
    PartlyRefused,
    RequestRefused,
    Security,
    ShareAlteration,
    ShiftBy,
    ToDatetime,
    ToEarliest,
    ToOffset,
    ToOffsets,
    TopicPartition,
    Unsendable,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName
from headgate.domain.times import millis

FIRST, SECOND, THIRD = PARTITIONS
NOWHERE = TopicPartition(FLIGHTS, 99)
pytestmark = pytest.mark.timeout(60)
UNTYPED: Any = headgate.admin
"""The same without types, as a program without a type checker has it."""


def test_committed_offsets_are_fetched_with_all_fields(admin: Admin, group: str) -> None:
    """An integer, and an offset with leader epoch and metadata. Partitions without an offset are omitted."""
    with_metadata = CommittedOffset(7, 3, "näher")
    admin.alter_offsets(group, {FIRST: 4, SECOND: with_metadata})
    both = {FIRST: CommittedOffset(4), SECOND: with_metadata}
    assert admin.committed_offsets(group) == both
    assert admin.committed_offsets(group, [THIRD, SECOND]) == {SECOND: with_metadata}
    assert admin.committed_offsets("nobody") == {}


def test_surely_mistaken_arguments_are_refused(admin: Admin, group: str) -> None:
    """A single string instead of a list of groups, states or topics, and a negative offset."""
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: UNTYPED.Admin(["127.0.0.1:9092"]), r"bootstrap_servers must be a string, .* not \['127"),
        (
            lambda a: UNTYPED.Admin("127.0.0.1:9092", timeout_s="5"),
            "a number of seconds, not '5'",
        ),
        (lambda a: UNTYPED.Admin("127.0.0.1:9092", timeout_s=True), "a number of seconds, not True"),
        (lambda a: UNTYPED.Admin("127.0.0.1:9092", client_id=5), "client_id must be a string, not 5"),
        (lambda a: UNTYPED.Admin("127.0.0.1:9092", security=None), "security must be a dict .* not None"),
        (lambda a: UNTYPED.AsyncAdmin("127.0.0.1:9092", security="SSL"), "security must be a dict .* not 'S"),
        (
            lambda a: a.alter_offsets("g", {FIRST: "0"}),
            "value of flights-0 in offsets_to_commit must be an int or .* not '0'",
        ),
        (
            lambda a: a.alter_offsets("g", {"flights": 0}),
            "a key of offsets_to_commit must be a TopicPartition, .* not 'flights'",
        ),
        (
            lambda a: a.committed_offsets("g", ["flights"]),
            "an element of partitions must be a TopicPartition",
        ),
        (
            lambda a: a.log_end_offsets("flights"),
            "partitions must be several, .* each a TopicPartition, .* not 'flights'",
        ),
        (
            lambda a: a.pause_partitions("g", ["flights"]),
            "must be a TopicPartition, .* returns all partitions",
        ),
        (lambda a: a.delete_offsets("g", ["flights"]), "must be a TopicPartition, .* returns all partitions"),
        (
            lambda a: a.offset_history("g", [5]),
            "an element of partitions must be a TopicPartition, .* or a string, not 5",
        ),
        (
            lambda a: a.plan_reset("g", [FIRST], "earliest"),
            "target must be a target, for instance .* not 'earliest'",
        ),
        (
            lambda a: a.plan_reset("g", [FIRST], ToEarliest),
            "target must be a target, for instance ToEarl",
        ),
        (
            lambda a: a.plan_rewind("g", {FIRST: "5"}),
            "flights-0 in targets must be an offset or a target, .* not '5'",
        ),
        (lambda a: a.plan_share_reset([FIRST], ToEarliest), "target must be a target"),
        (lambda a: a.alter_share_offsets("g", {FIRST: 1.5}), "must be an int, not 1.5"),
        (lambda a: UNTYPED.ShiftBy("3"), "count must be an int, not '3'"),
        (lambda a: UNTYPED.ToOffset(None), "offset must be an int, not None"),
        (lambda a: UNTYPED.ToOffsets({"flights": 1}), "a TopicPartition is expected"),
        (
            lambda a: UNTYPED.ByDuration(timedelta(hours=1)),
            r"duration_ms must be an int, not datetime\.timedelta",
        ),
        (lambda a: UNTYPED.ToDatetime("2026-11-21"), "a time must be a datetime, or an int of milliseconds"),
        (lambda a: a.offsets_as_of("g", 1.5), "time must be a datetime, .* not 1.5"),
        (lambda a: a.expiring_groups(timedelta(days=1)), "within_ms must be an int"),
        (lambda a: a.set_offsets_retention("g", timedelta(days=1)), "retention_ms must be an int"),
        (
            lambda a: Security.of(
                {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}, token=UNTYPED
            ),
            "token must be a function that returns a token, not the token itself",
        ),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(
    admin: Admin, call: Callable[[Any], object], message: str
) -> None:
    """The error has the value and what is expected, whatever the type checker was told."""
    with pytest.raises(TypeError, match=message):
        call(admin)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: Admin("localhost"), "not an address of the form host:port: 'localhost'"),
        (lambda a: Admin("PLAINTEXT://127.0.0.1:9092"), "not an address of the form host:port: 'PLAINTEXT"),
        (lambda a: a.expiring_groups(within_ms=-1), "within_ms must be 0 or more, not -1"),
        (lambda a: Admin("127.0.0.1:99999"), "not an address of the form host:port"),
        (lambda a: Admin("127.0.0.1:9092", timeout_s=0), "timeout_s must be more than 0 seconds"),
        (lambda a: Admin("127.0.0.1:9092", timeout_s=float("nan")), "and finite, not nan"),
        (lambda a: a.alter_offsets("g", {FIRST: 1 << 63}), r"below 2\*\*63, not 9223372036854775808"),
        (lambda a: ToOffsets({FIRST: -1}), "the offset of flights-0 must be 0 or more"),
        (lambda a: ToOffset(-1), r"offset must be 0 or more, not -1; ToEarliest\(\) and ToLatest\(\)"),
        (lambda a: ToDatetime(1_795_528_706), "1795528706 looks like seconds; .* 1970-01-21"),
        (lambda a: ToDatetime(datetime(2026, 11, 21)), "has no time zone"),
        (lambda a: a.offset_history("g", until=-1), "a time must not be before 1970: -1"),
        (
            lambda a: a.offset_history("g", until=datetime(1969, 12, 31, tzinfo=UTC)),
            "must not be before 1970",
        ),
        (lambda a: a.offset_history("g", since=-1), "a time must not be before 1970: -1"),
        (
            lambda a: a.offset_history("g", since=datetime(2026, 2, 2, tzinfo=UTC), until=10**12),
            r"since must not be later than until, and datetime.*2026.* is later than 1000000000000$",
        ),
        (lambda a: a.offset_history("g", limit=0), "limit must be 1 or more, not 0"),
        (lambda a: a.rewind("g", {FIRST: 0}, timeout_s=-1), "timeout_s must be 0 seconds or more, not -1"),
        (lambda a: a.wait_until_paused("g", [FIRST], -0.5), "timeout_s must be 0 seconds or more, not -0.5"),
        (lambda a: a.rewind_share_group("g", {FIRST: 0}, timeout_s=-1), "timeout_s must be 0 seconds or"),
        (lambda a: a.rewind_share_group("g", {FIRST: -1}), "offset of flights-0 must be 0 or more, not -1"),
        (lambda a: a.rewind_share_group("g", {FIRST: 1 << 63}), r"must be below 2\*\*63, not 92233"),
        (lambda a: a.alter_share_offsets("g", {FIRST: -2}), "offset of flights-0 must be 0 or more, not -2"),
        (lambda a: a.share_records("g", FIRST, -1), "offset of flights-0 must be 0 or more, not -1"),
        (lambda a: a.share_records("g", FIRST, 1 << 63), r"must be below 2\*\*63, not 92233"),
        (
            lambda a: a.delete_records({FIRST: -2}),
            "offset of flights-0 must be 0 or more, or -1 for all, not",
        ),
        (
            lambda a: a.alter_share_records("g", FIRST, ShareAlteration.ARCHIVE, [(0, 1 << 63)]),
            "0 to 9223372036854775808 is no range of offsets",
        ),
        (lambda a: a.delete_records({FIRST: 1 << 63}), r"must be below 2\*\*63, not 92233"),
        (
            lambda a: NewTopic(name="t", partitions=2, assignment=((1,),)),
            "topic t: the assignment determines the numbers of partitions and replicas; leave out partitions",
        ),
        (
            lambda a: NewTopic(name="t", replication_factor=1, assignment=((1,),)),
            "leave out partitions and replication_factor",
        ),
        (lambda a: a.restore_offsets("g", 1_795_528_706), "1795528706 looks like seconds; .* 1970-01-21"),
        (lambda a: a.offset_history("g", since=1_000_000_000), "1000000000 looks like seconds"),
        (lambda a: a.offsets_as_of("g", 99_999_999_999), "99999999999 looks like seconds"),
        (
            lambda a: ToDatetime(1_795_528_706_000_000),
            r"1795528706000000 looks like microseconds \(divide it by 1000\); .* after the year 9999",
        ),
        (
            lambda a: a.offsets_as_of("g", 1_795_528_706_000_000_000),
            r"1795528706000000000 looks like nanoseconds \(divide it by 1000000\)",
        ),
        (lambda a: a.offset_history("g", since=253_402_300_800_000), "looks like microseconds"),
        (lambda a: a.offset_history("g", until=(1 << 63) - 1), "looks like nanoseconds"),
        (lambda a: a.restore_offsets("g", 1_795_528_706_000_000), "looks like microseconds"),
        (lambda a: a.plan_restore("g", 1_795_528_706_000_000_000), "looks like nanoseconds"),
        (lambda a: a.plan_restore("g", -1), "a time must not be before 1970: -1"),
        (lambda a: a.offsets_as_of("g", -1), "a time must not be before 1970: -1"),
    ],
)
def test_an_impossible_argument_is_named(admin: Admin, call: Callable[[Any], object], message: str) -> None:
    """The type is right, and the value cannot be."""
    with pytest.raises(ValueError, match=message):
        call(admin)


def test_every_ms_of_a_datetime_is_a_time() -> None:
    """The last one is the end of the year 9999."""
    last = datetime.max.replace(tzinfo=UTC)
    assert millis(last) == millis(253_402_300_799_999) == 253_402_300_799_999


def test_a_text_that_no_request_can_have_is_not_sent(bootstrap_servers: str, admin: Admin) -> None:
    """A node would only close the connection, again and again, until the timeout."""
    long = "x" * 32_768
    calls: list[Callable[[], object]] = [
        lambda: admin.create_topic(long),
        lambda: admin.create_topic("t", configs={"cleanup.policy": long}),
        lambda: admin.describe_transactions([long]),
        lambda: Admin(bootstrap_servers, client_id=long).topics(),
    ]
    for call in calls:
        with pytest.raises(Unsendable, match="32768 bytes, and no string may have more than 32767"):
            call()
    assert admin.describe_transactions([long[1:]]) == {long[1:]: None}


def test_a_misspelt_state_of_transactions_is_refused(admin: Admin) -> None:
    """Nothing at all would look as if no transaction were open."""
    with pytest.raises(RequestRefused, match=r"it knows no state ongoing; states are Empty, Ongoing"):
        admin.list_transactions(["ongoing", "Empty"])
    assert isinstance(admin.list_transactions(["Ongoing"]), list)


def test_the_message_of_a_hundred_errors_is_short(admin: Admin, group: str) -> None:
    """The error has all of them, its message the first few."""
    nowhere = {TopicPartition(TopicName("nowhere"), index): index for index in range(100)}
    with pytest.raises(PartlyRefused) as refused:
        admin.alter_offsets(group, nowhere)
    assert len(refused.value.refused) == 100
    assert "; and 97 more" in str(refused.value)


def test_unknown_partitions_are_refused_and_the_others_committed(admin: Admin, group: str) -> None:
    """The error has the unknown partitions."""
    with pytest.raises(PartlyRefused) as refused:
        admin.alter_offsets(group, {FIRST: 1, NOWHERE: 1})
    (error,) = refused.value.refused.values()
    assert set(refused.value.refused) == {NOWHERE}
    assert error.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(1)}


def test_a_group_is_described_with_its_members_and_assignments(
    admin: Admin, group: str, member: Consumer
) -> None:
    """A classic group of one member, with Kafka's names. A group that does not exist is None."""
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
    """The filters use Kafka's names."""
    admin.alter_offsets("only-offsets", {FIRST: 1})
    listed = {str(listing.group_id): listing for listing in admin.list_groups()}
    assert (listed[group].state, listed[group].group_type) == ("Stable", "Classic")
    assert group in [each.group_id for each in admin.list_groups(states=["stable"])]
    assert group not in [each.group_id for each in admin.list_groups(states=["Empty"])]
    assert "only-offsets" in [each.group_id for each in admin.list_groups(["Empty"], ["classic"])]
    with pytest.raises(ValueError, match=r"states are Empty, Stable, .*, not 'Stabel'"):
        admin.list_groups(["Stabel"])
    with pytest.raises(ValueError, match="states are Empty, Stable, Dead, not 'Stabl'"):
        admin.list_share_groups(["Stabl"])
    assert group not in [each.group_id for each in admin.list_share_groups(["stable", "Empty"])]
    of_consumers = admin.list_groups(types=["consumer"])  # other tests may have left some
    assert {each.group_type for each in of_consumers} <= {"Consumer"}
    assert not {group, "only-offsets"} & {each.group_id for each in of_consumers}


def test_a_consumer_group_is_described_and_listed_and_not_reset_while_active(
    admin: Admin, group: str, consumer_member: Consumer
) -> None:
    """The description has epochs and target assignments. A group with members cannot be reset."""
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


def test_an_empty_consumer_group_is_reset_and_deleted(
    admin: Admin, group: str, consumer_member: Consumer
) -> None:
    """The reset is a conditional commit, as for a classic group."""
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


def test_positions_have_lag_and_member(admin: Admin, group: str, member: Consumer) -> None:
    """Also for an assigned partition without a committed offset, and for a deleted partition."""
    member.commit(offsets=[_kafka(FIRST, 4), _kafka(SECOND, 10)], asynchronous=False)
    positions = admin.positions(group)
    assert [each.partition for each in positions] == PARTITIONS
    assert [each.lag for each in positions] == [6, 0, None]
    assert [each.log_end_offset for each in positions] == [RECORDS] * 3
    assert {each.member.client_id for each in positions if each.member} == {"reader"}


def test_an_active_group_is_not_changed(admin: Admin, group: str, member: Consumer) -> None:
    """Its members would not notice the change."""
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


def test_a_reset_is_planned_and_executed(admin: Admin, group: str) -> None:
    """Planning changes nothing. Both return the old, the new and the requested offset."""
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


def test_offsets_are_committed_on_condition(admin: Admin, group: str) -> None:
    """All are committed, or none, with an error that has the committed offsets."""
    admin.alter_offsets(group, {FIRST: 4, SECOND: 9}, expected={FIRST: None, SECOND: None})
    with pytest.raises(OffsetsMoved) as moved:
        admin.alter_offsets(group, {FIRST: 5, SECOND: 5}, expected={FIRST: 3, SECOND: 9})
    assert moved.value.current == {FIRST: 4}
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(4), SECOND: CommittedOffset(9)}


def test_a_reset_fails_if_an_offset_changed_since_the_plan(admin: Admin, group: str) -> None:
    """One changed offset is sufficient; nothing is reset."""
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


def test_an_impossible_reset_is_refused(admin: Admin, group: str) -> None:
    """No committed offset to shift, no partitions, unknown partitions."""
    with pytest.raises(NothingToReset, match="flights-0"):
        admin.plan_reset(group, [FIRST], ShiftBy(1))
    with pytest.raises(NothingToReset, match="no partitions"):
        admin.plan_reset(group, [], ToEarliest())
    with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.plan_reset(group, [NOWHERE], ToEarliest())


def test_offsets_and_groups_are_deleted(admin: Admin, group: str) -> None:
    """Errors are reported for some; the others are deleted."""
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


def test_a_share_group_is_not_taken_for_one_that_commits(admin: Admin) -> None:
    """It has no committed offsets: a rewind would pause it, wait for its members, and then fail."""
    admin.create_topic("jobs")
    first = TopicPartition("jobs", 0)
    admin.alter_share_offsets("work", {first: 0})
    for change in (
        lambda: admin.rewind("work", {first: 0}),
        lambda: admin.plan_rewind("work", {first: 0}),
        lambda: admin.plan_reset("work", [first], ToEarliest()),
        lambda: admin.alter_offsets("work", {first: 0}),
        lambda: admin.undo("work"),
    ):
        with pytest.raises(RequestRefused, match="It is a share group: see rewind_share_group"):
            change()
    assert not admin.list_paused_partitions("work")
    admin.delete_groups(["work"])


def test_a_start_outside_of_the_log_is_moved_into_it(admin: Admin, group: str) -> None:
    """No member would notice it, and the records up to a start beyond the end would never be delivered."""
    planned = admin.alter_share_offsets(group, {SECOND: RECORDS + 500, FIRST: 4})
    assert [(one.partition, one.offset, one.asked_for) for one in planned] == [
        (FIRST, 4, 4),
        (SECOND, RECORDS, RECORDS + 500),
    ]
    found = {one.partition: one.start_offset for one in admin.share_offsets(group)}
    assert found == {FIRST: 4, SECOND: RECORDS}
    admin.delete_groups([group])


async def _alter_share_offsets(servers: str, group: str) -> tuple[int, int]:
    async with AsyncAdmin(servers) as admin:
        (planned,) = await admin.alter_share_offsets(group, {FIRST: 700})
        for call in (admin.alter_share_offsets, admin.rewind_share_group):
            with pytest.raises(ValueError, match="0 or more, not -1"):
                await call(group, {FIRST: -1})
        await admin.delete_groups([group])
    return planned.offset, planned.asked_for


def test_the_asynchronous_face_refuses_and_moves_starts_too(bootstrap_servers: str, group: str) -> None:
    """As the blocking one."""
    assert asyncio.run(_alter_share_offsets(bootstrap_servers, group)) == (RECORDS, 700)


def test_a_partition_that_does_not_exist_is_refused_alone(admin: Admin, group: str) -> None:
    """The start offsets of the others are set, also if they had to be moved."""
    with pytest.raises(PartlyRefused) as partly:
        admin.alter_share_offsets(group, {FIRST: 700, NOWHERE: 0})
    assert list(partly.value.refused) == [NOWHERE]
    assert [(one.partition, one.start_offset) for one in admin.share_offsets(group)] == [(FIRST, RECORDS)]
    admin.delete_groups([group])


def test_what_a_share_group_has_not_got_is_empty_and_documented(admin: Admin) -> None:
    """A list of all groups has it, and nothing fails in a loop; the methods name those for share groups."""
    admin.create_topic("chores")
    admin.alter_share_offsets("cleaning", {TopicPartition("chores", 0): 0})
    assert "cleaning" in [one.group_id for one in admin.list_groups(types=["Share"])]
    assert admin.describe_group("cleaning") is None
    assert not admin.positions("cleaning") and not admin.committed_offsets("cleaning")
    assert not admin.offset_history("cleaning").partitions
    for method in (
        Admin.list_groups,
        Admin.describe_groups,
        Admin.describe_group,
        Admin.positions,
        Admin.committed_offsets,
        Admin.offset_history,
    ):
        assert "share group" in str(method.__doc__).lower(), method
    admin.delete_groups(["cleaning"])


def test_a_cluster_without_share_groups_resets_others(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka answers a description with UNSUPPORTED_VERSION where its feature share.version is off."""

    def refuse(group_ids: list[str]) -> None:
        raise RequestRefused(f"group {group_ids[0]}", ErrorCode.UNSUPPORTED_VERSION)

    monkeypatch.setattr(admin, "describe_share_groups", refuse)
    first = TopicPartition(FLIGHTS, 0)
    assert len(admin.plan_reset("not-there-yet", [first], ToEarliest())) == 1

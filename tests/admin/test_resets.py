"""The plans of many resets: what `plan_reset` says of each group, with few requests for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.admin.conftest import FLIGHTS, PARTITIONS, START_MS

from headgate.admin import (
    Admin,
    ByDuration,
    ClientError,
    GroupIsActive,
    NothingToReset,
    OffsetsMoved,
    PlannedOffset,
    RequestRefused,
    ShiftBy,
    Target,
    ToCurrent,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    TopicPartition,
)
from headgate.client.connection import Connection
from headgate.domain.ids import TopicName

TARGETS = [
    ToEarliest(),
    ToLatest(),
    ToCurrent(),
    ToOffset(3),
    ToOffset(100),
    ToOffsets({PARTITIONS[2]: 2}),
    ShiftBy(-1),
    ShiftBy(100),
    ToDatetime(START_MS + 2500),
    ToDatetime(START_MS + 10**9),
    ByDuration(10**15),
]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of requests of each kind that this process has sent to servers."""
    found: Counter[str] = Counter()
    exchange = Connection._exchange

    def counted(connection: Connection, messages: Sequence[Any], *more: Any, **others: Any) -> Any:
        found.update(type(message).__name__ for message in messages)
        return exchange(connection, messages, *more, **others)

    monkeypatch.setattr(Connection, "_exchange", counted)
    return found


def made(admin: Admin, prefix: str, count: int) -> list[str]:
    """Create groups with an offset in two of the three partitions."""
    names = [f"{prefix}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        admin.alter_offsets(name, {PARTITIONS[0]: number % 10, PARTITIONS[1]: 5})
    return names


def planned_alone(
    admin: Admin, group: str, partitions: Sequence[TopicPartition], target: Target
) -> list[PlannedOffset] | str:
    """Return the plan of one group, or its error."""
    try:
        return admin.plan_reset(group, partitions, target)
    except ClientError as error:
        return f"{type(error)} {error}"


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("partitions", [PARTITIONS, PARTITIONS[:2], []], ids=["all", "committed", "none"])
def test_many_plans_are_those_of_each_group(
    admin: Admin, group: str, target: Target, partitions: list[TopicPartition]
) -> None:
    """Of groups with offsets, of one that does not exist, and with the same errors."""
    if isinstance(target, ToOffsets):
        partitions = [one for one in partitions if one in target.offsets]
    names = [*made(admin, group, 3), f"{group}-none"]
    plans = admin.plan_resets(dict.fromkeys(names, target), partitions)
    together = {
        name: f"{type(found)} {found}" if isinstance(found, ClientError) else found
        for name, found in plans.items()
    }
    assert together == {name: planned_alone(admin, name, partitions, target) for name in names}
    assert list(plans) == names


def test_without_partitions_each_group_resets_its_own(admin: Admin, group: str) -> None:
    """Those of its offsets by partition, or those with a committed offset."""
    one, two = made(admin, group, 2)
    plans = admin.plan_resets({one: ToOffsets({PARTITIONS[2]: 1}), two: ToLatest(), "none": ToLatest()})
    places = {
        name: plan if isinstance(plan, ClientError) else [each.partition for each in plan]
        for name, plan in plans.items()
    }
    assert (places[one], places[two]) == ([PARTITIONS[2]], PARTITIONS[:2])
    assert isinstance(plans["none"], NothingToReset)


def test_what_is_wrong_with_one_group_stops_no_other(admin: Admin, member: Consumer, group: str) -> None:
    """A group with members, one with an unknown partition, and one that can be reset."""
    (name,) = made(admin, f"{group}-own", 1)
    strange = TopicPartition(TopicName("strange"), 0)
    plans = admin.plan_resets(
        {
            group: ToOffsets({PARTITIONS[0]: 1}),
            "s": ToOffsets({strange: 1}),
            name: ToOffsets({PARTITIONS[0]: 1}),
        }
    )
    active, unknown, right = plans.values()
    assert isinstance(active, GroupIsActive)
    assert isinstance(unknown, RequestRefused)
    assert "strange" in str(unknown)
    assert [each.offset for each in right] == [1] if isinstance(right, list) else False


def test_a_share_group_is_refused_with_one_request_for_all(
    admin: Admin, group: str, sent: Counter[str]
) -> None:
    """With the error of `plan_reset`; the plans of the others are made."""
    (name,) = made(admin, group, 1)
    shares = [f"{group}-share-{number}" for number in range(5)]
    for share in shares:
        admin.alter_share_offsets(share, {PARTITIONS[0]: 0})
    sent.clear()
    plans = admin.plan_resets(dict.fromkeys([*shares, name, f"{group}-none"], ToEarliest()), PARTITIONS)
    assert sent["ShareGroupDescribeRequest"] == 1
    for share in shares:
        found = plans[share]
        assert isinstance(found, ClientError) and "It is a share group" in str(found)
        assert f"{type(found)} {found}" == planned_alone(admin, share, PARTITIONS, ToEarliest())
    assert all(isinstance(plans[each], list) for each in (name, f"{group}-none"))
    admin.delete_groups(shares)


@pytest.mark.parametrize("is_consumer", [False, True], ids=["classic", "consumer"])
def test_members_that_joined_after_the_plan_are_told(
    admin: Admin, group: str, request: pytest.FixtureRequest, is_consumer: bool
) -> None:
    """Nothing is written: the group refuses the commit, also one that would have met its condition."""
    plans = admin.plan_resets({group: ToOffset(3)}, PARTITIONS)
    request.getfixturevalue("consumer_member" if is_consumer else "member")
    planned = plans[group]
    assert isinstance(planned, list)
    with pytest.raises(GroupIsActive, match="state Stable, 1 member"):
        admin.execute_reset(group, planned)
    assert admin.committed_offsets(group) == {}


def test_a_plan_of_many_is_refused_if_an_offset_moved(admin: Admin, group: str) -> None:
    """As the plan of one group is."""
    (name,) = made(admin, group, 1)
    plans = admin.plan_resets({name: ToLatest()})
    admin.alter_offsets(name, {PARTITIONS[0]: 7})
    planned = plans[name]
    assert isinstance(planned, list)
    with pytest.raises(OffsetsMoved):
        admin.execute_reset(name, planned)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_plans_of_many_groups_are_few_requests(
    admin: Admin, group: str, sent: Counter[str], target: Target
) -> None:
    """The number does not grow with the groups, up to a hundred of them; execution is one request each."""
    names = made(admin, group, 60)
    assert {each.topic for each in PARTITIONS} == {FLIGHTS}
    sent.clear()
    plans = admin.plan_resets(dict.fromkeys(names, target))
    assert sum(sent.values()) <= 8, sent
    sent.clear()
    for name, planned in plans.items():
        assert isinstance(planned, list)
        admin.execute_reset(name, planned)
    assert sent == {"OffsetCommitRequest": len(names)}

"""All groups of a shard: the list with its filters."""

from __future__ import annotations

import pytest
from tests.core.harness import Harness, durable_state, join, leave

from headgate.core.classic.commands import DescribeGroup
from headgate.core.commands import ListGroups
from headgate.domain.ids import GroupId, TopicName
from headgate.records import (
    GroupMetadata,
    GroupTombstone,
    OffsetCommit,
    OffsetTombstone,
    Record,
    UnknownRecord,
    decode,
    encode,
)


def some_groups() -> Harness:
    """One stable, one preparing, one emptied, one that only committed."""
    h = Harness()
    h.stable_group("e", group_id="emptied", protocol_type="connect")
    h.ask(leave(("e", None), group_id="emptied"))
    h.stable_group("s", group_id="stable")
    h.send(join(group_id="preparing", must_know_member_id=False))
    h.commit("simple")
    h.commit("stable", member_id="s", generation=1)
    return h


FILTERS: list[tuple[list[str], list[str], list[str]]] = [
    ([], [], ["emptied", "preparing", "simple", "stable"]),
    (["Stable"], [], ["stable"]),
    (["sTABLE", " empty "], [], ["emptied", "simple", "stable"]),
    (["PreparingRebalance"], ["Classic"], ["preparing"]),
    (["preparingrebalance"], ["CLASSIC"], ["preparing"]),
    ([], ["classic"], ["emptied", "preparing", "simple", "stable"]),
    ([], ["consumer"], []),
    ([], ["consumer", "classic"], ["emptied", "preparing", "simple", "stable"]),
    (["no such state"], [], []),
    ([], ["no such type"], []),
]


@pytest.mark.parametrize(("states", "types", "expected"), FILTERS)
def test_groups_are_filtered_by_state_and_type(
    states: list[str], types: list[str], expected: list[str]
) -> None:
    """Case is ignored; unknown values match no group, as seen of Kafka 4.3.1."""
    groups = some_groups().ask(ListGroups(frozenset(states), frozenset(types))).groups
    assert sorted(group.group_id for group in groups) == expected


def test_a_list_shows_protocol_type_state_and_type() -> None:
    """A group that only commits has no protocol type, as seen of Kafka 4.3.1."""
    groups = some_groups().ask(ListGroups()).groups
    assert {group.group_id: (group.protocol_type, group.state, group.group_type) for group in groups} == {
        "emptied": ("connect", "Empty", "classic"),
        "preparing": ("consumer", "PreparingRebalance", "classic"),
        "simple": ("", "Empty", "classic"),
        "stable": ("consumer", "Stable", "classic"),
    }


def test_a_crash_does_not_change_the_list() -> None:
    """Except for unfinished generations (invariant 25)."""
    h = some_groups()
    before = {group for group in h.ask(ListGroups()).groups if group.group_id != "preparing"}
    h.reload()
    after = {group for group in h.ask(ListGroups()).groups if group.group_id != "preparing"}
    assert before == after


def test_a_group_that_only_committed_is_described_as_empty() -> None:
    """Without protocol or members."""
    described = some_groups().ask(DescribeGroup(GroupId("simple")))
    assert (described.state, described.protocol_type, described.members) == ("Empty", "", ())


def test_current_records_can_be_written_again() -> None:
    """For every record of a shard, applying the current record of its key changes nothing (R3.13)."""
    h = some_groups()
    before = durable_state(h.shard)
    written = [decode(key, value) for key, value in h.log]
    assert {type(record) for record in written} == {OffsetCommit, GroupMetadata}
    never: list[Record] = [
        OffsetTombstone(GroupId("g"), TopicName("t"), 9),
        GroupTombstone(GroupId("nobody")),
    ]
    for record in (*written, *never, GroupTombstone(GroupId("stable")), GroupTombstone(GroupId("simple"))):
        standing = h.shard.current_record(record)
        if standing is not None:
            assert encode(standing)[0] == encode(record)[0]
            h.shard.apply(standing, 0)
    assert durable_state(h.shard) == before
    assert h.shard.current_record(UnknownRecord(2000, b"\x07\xd0", b"")) is None

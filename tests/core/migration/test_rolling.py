"""Groups whose members migrate one by one to the other protocol, and back."""

from __future__ import annotations

import pytest
from tests.core.consumer.support import ConsumerHarness, G
from tests.core.migration.support import Anyone, ClassicClient, NewClient, play

from headgate.core.classic.commands import DescribeGroup
from headgate.core.commands import ListGroups
from headgate.domain.errors import ErrorCode

ALL = frozenset({("t", 0), ("t", 1), ("t", 2), ("t", 3)})


def group_type(h: ConsumerHarness) -> str:
    """Return the type of the group."""
    (listed,) = h.ask(ListGroups()).groups
    return str(listed.group_type)


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_a_classic_group_rolls_to_the_new_protocol_and_back(is_cooperative: bool) -> None:
    """Member by member; in every stable state each partition is owned by one member, which may commit."""
    h = ConsumerHarness({"t": 4})
    classic = [ClassicClient(h, name, is_cooperative=is_cooperative) for name in "ab"]
    new = [NewClient(h, name) for name in "xy"]
    play(h, *classic)
    assert group_type(h) == "classic"
    steps: list[tuple[list[Anyone], str]] = [
        ([*classic, new[0]], "consumer"),
        ([classic[1], new[0]], "consumer"),
        ([classic[1], *new], "consumer"),
        ([*new], "consumer"),
        ([*new, classic[0]], "consumer"),
        ([new[1], *classic], "consumer"),
        ([*classic], "classic"),
    ]
    everyone: list[Anyone] = [*classic, *new]
    for members, expected in steps:
        for member in everyone:
            if member not in members:
                member.leave()
        play(h, *members)
        assert group_type(h) == expected
        assert frozenset().union(*(member.owned for member in members)) == ALL
        assert sum(len(member.owned) for member in members) == len(ALL)
        for member in members:
            assert member.commit() is ErrorCode.NONE


def test_migrations_never_make_members_unknown() -> None:
    """Neither the upgrade nor the downgrade."""
    h = ConsumerHarness({"t": 4})
    a, b, x = ClassicClient(h, "a"), ClassicClient(h, "b"), NewClient(h, "x")
    play(h, a, b)
    play(h, a, b, x)
    x.leave()
    play(h, a, b)
    assert {*a.errors, *b.errors} <= {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_crash_after_the_downgrade_does_not_leave_partitions_unread() -> None:
    """The rebalance that it started continues, though no record says that any member has joined."""
    h = ConsumerHarness({"t": 4})
    a, b, x = ClassicClient(h, "a"), ClassicClient(h, "b"), NewClient(h, "x")
    play(h, a, b, x)
    x.leave()
    h.reload()
    assert h.ask(DescribeGroup(G)).state == "PreparingRebalance"
    play(h, a, b)
    assert a.owned | b.owned == ALL

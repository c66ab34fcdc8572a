"""Offsets in transactions while a group changes its protocol: they wait, whatever becomes of the group."""

from __future__ import annotations

import pytest
from tests.core.consumer.support import ConsumerHarness, G
from tests.core.harness import heartbeat, leave
from tests.core.kinds_of_shard import classic_groups, consumer_groups
from tests.core.migration.test_upgrade import ALL, classic_group

from headgate.core.offsets.commands import FetchOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId

NONE = ErrorCode.NONE
OUTCOMES = pytest.mark.parametrize("is_committed", [True, False])


def unstable(h: ConsumerHarness) -> set[int]:
    """Return the partitions of the topic without a stable offset."""
    found = h.ask(FetchOffsets(GroupId(G), None, require_stable=True))
    return set(found.unstable.get("t", ()))


def offsets(h: ConsumerHarness) -> list[int | None]:
    """Return the committed offsets of the three partitions."""
    return [h.offset(G, partition=partition) for partition in range(3)]


def is_classic(h: ConsumerHarness) -> bool:
    """Return whether the group is a classic one."""
    assert (G in classic_groups(h.shard).live) != (G in consumer_groups(h.shard).by_id)
    return G in classic_groups(h.shard).live


@OUTCOMES
def test_offsets_wait_through_an_upgrade(is_committed: bool) -> None:
    """The member goes on in the same transaction, by its assignment in the new protocol."""
    h = classic_group()
    assert h.commit_as("a", 1, ("t", 0)) is NONE
    assert h.commit_in_transaction_as("a", 1, ("t", 0), ("t", 1)) is NONE
    assert h.join("x", "t").member_epoch == 2
    assert not is_classic(h)
    assert unstable(h) == {0, 1}
    assert h.commit_in_transaction_as("a", 0, ("t", 2)) is ErrorCode.ILLEGAL_GENERATION
    assert h.commit_in_transaction_as("a", 1, ("t", 2)) is NONE
    assert h.end(7, is_committed=is_committed) is NONE
    assert offsets(h) == ([9, 9, 9] if is_committed else [7, None, None])
    assert not unstable(h)


@OUTCOMES
def test_offsets_wait_through_a_downgrade(is_committed: bool) -> None:
    """The last member of the new protocol leaves, and with it the right to commit in its epoch."""
    h = classic_group()
    epoch = h.join("x", "t").member_epoch
    assert h.commit_in_transaction_as("a", 1, ("t", 0)) is NONE
    h.beat("x", -1)
    assert is_classic(h)
    assert unstable(h) == {0}
    assert h.commit_in_transaction_as("x", epoch, ("t", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit_in_transaction_as("a", 0, ("t", 1)) is ErrorCode.ILLEGAL_GENERATION
    assert h.end(7, is_committed=is_committed) is NONE
    assert offsets(h) == [9 if is_committed else None, None, None]
    assert not unstable(h)


@OUTCOMES
@pytest.mark.parametrize("is_reloaded", [False, True])
def test_offsets_wait_until_all_members_are_others(is_committed: bool, is_reloaded: bool) -> None:
    """Also through a crash between two steps: the group is rolled to the new protocol, and empty at last."""
    h = classic_group()
    assert h.commit_in_transaction_as("a", 1, *ALL) is NONE
    h.join("x", "t")
    h.ask(leave(("a", None), group_id=G))
    if is_reloaded:
        h.reload()
    assert not is_classic(h)
    assert h.commit_in_transaction_as("a", 1, ("t", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert unstable(h) == {0, 1, 2}
    h.beat("x", -1)
    if is_reloaded:
        h.reload()
    assert unstable(h) == {0, 1, 2}
    assert h.end(7, is_committed=is_committed) is NONE
    assert offsets(h) == ([9] * 3 if is_committed else [None] * 3)


def test_a_later_commit_of_the_new_protocol_wins() -> None:
    """The order is that of the log, whatever protocol the commits were made in."""
    h = classic_group()
    assert h.commit_in_transaction_as("a", 1, ("t", 0), ("t", 1)) is NONE
    h.join("x", "t")
    assert h.commit_as("a", 1, ("t", 0)) is NONE
    assert h.end(7) is NONE
    assert offsets(h) == [7, 9, None]
    assert h.ask(heartbeat("a", 1, group_id=G)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_offsets_of_a_migrated_group_do_not_expire_while_they_wait() -> None:
    """The group is empty for longer than its retention."""
    h = classic_group(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    assert h.commit_as("a", 1, ("t", 0), ("t", 1)) is NONE
    assert h.commit_in_transaction_as("a", 1, ("t", 0)) is NONE
    h.join("x", "t")
    h.ask(leave(("a", None), group_id=G))
    h.beat("x", -1)
    h.advance(5 * 60_000)
    assert offsets(h) == [7, None, None]
    assert h.end(7) is NONE
    assert offsets(h) == [9, None, None]
    h.advance(5 * 60_000)
    assert offsets(h) == [None, None, None]

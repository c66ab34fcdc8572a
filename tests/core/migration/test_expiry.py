"""Offsets of a group continue to age when it changes its type (R0.9, R0.10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.consumer.support import ConsumerHarness, G
from tests.core.harness import NONE
from tests.core.migration.support import ClassicClient, NewClient, play

MINUTE = 60_000


def expiring() -> ConsumerHarness:
    return ConsumerHarness(
        group_initial_rebalance_delay_ms="0",
        offsets_retention_minutes="10",
        offsets_retention_check_interval_ms=str(MINUTE),
    )


def live_on(h: ConsumerHarness, duration_ms: int, *members: ClassicClient | NewClient) -> None:
    for _ in range(duration_ms // 5_000):
        h.advance(5_000)
        for member in members:
            member.step()


def upgraded(h: ConsumerHarness) -> list[ClassicClient | NewClient]:
    """A classic group that has become a consumer group."""
    members: list[ClassicClient | NewClient] = [ClassicClient(h, "a"), NewClient(h, "x")]
    play(h, members[0])
    assert members[0].commit() == NONE
    h.commit_as(members[0].member_id, members[0].generation, ("left", 0))
    play(h, *members)
    return members


def downgraded(h: ConsumerHarness) -> list[ClassicClient | NewClient]:
    """A consumer group that has become a classic group."""
    members = upgraded(h)
    members[1].leave()
    play(h, members[0])
    return members[:1]


@pytest.mark.parametrize(("migrated", "group_type"), [(upgraded, "consumer"), (downgraded, "classic")])
@pytest.mark.parametrize("reloads", [False, True])
def test_unsubscribed_offsets_expire_after_a_change_of_type(
    migrated: Callable[[ConsumerHarness], list[ClassicClient | NewClient]],
    group_type: str,
    reloads: bool,
) -> None:
    """One retention period after their commit; those of subscribed topics do not."""
    h = expiring()
    members = migrated(h)
    assert h.shard.groups.type_of(G) == group_type
    if reloads:
        h.reload()
    live_on(h, 9 * MINUTE, *members)
    assert h.offset(G, "left") == 7
    live_on(h, 3 * MINUTE, *members)
    assert (h.offset(G, "left"), h.offset(G, "t")) == (None, 7)
    assert h.shard.groups.type_of(G) == group_type

"""The rules by which a committed offset expires (KIP-211), one by one and to the millisecond."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.offsets.expiry import Aging, GroupClock, group_clock, is_expired
from headgate.domain.ids import Millis

GROUP: dict[str, Any] = {
    "protocol_type": "consumer",
    "is_empty": False,
    "is_stable": True,
    "state_timestamp": Millis(70),
    "knows_subscription": True,
}
HELD, BY_COMMIT = GroupClock(Aging.HELD), GroupClock(Aging.SINCE_COMMIT)


@pytest.mark.parametrize(
    ("group", "clock"),
    [
        ({}, BY_COMMIT),
        ({"is_stable": False}, HELD),
        ({"knows_subscription": False}, HELD),
        ({"protocol_type": "connect"}, HELD),
        ({"protocol_type": "", "is_stable": False, "knows_subscription": False}, BY_COMMIT),
        ({"protocol_type": "", "is_empty": True}, BY_COMMIT),
        ({"is_empty": True}, GroupClock(Aging.SINCE_STATE, Millis(70))),
        ({"is_empty": True, "protocol_type": "connect"}, GroupClock(Aging.SINCE_STATE, Millis(70))),
        ({"is_empty": True, "state_timestamp": Millis(0)}, GroupClock(Aging.SINCE_STATE, Millis(0))),
        ({"is_empty": True, "state_timestamp": Millis(-1)}, BY_COMMIT),
    ],
)
def test_from_when_the_offsets_of_a_group_age(group: dict[str, Any], clock: GroupClock) -> None:
    """One row for each rule, and what it does not need."""
    assert group_clock(**GROUP | group) == clock


@pytest.mark.parametrize(
    ("clock", "commit", "expire", "oldest"),
    [
        (BY_COMMIT, 1000, -1, 1100),
        (GroupClock(Aging.SINCE_STATE, Millis(2000)), 1000, -1, 2100),
        (GroupClock(Aging.SINCE_STATE, Millis(500)), 1000, -1, 600),
        (BY_COMMIT, 1000, 1050, 1050),
        (BY_COMMIT, 1000, 0, 0),
        (GroupClock(Aging.SINCE_STATE, Millis(2000)), 1000, 1200, 1200),
    ],
)
def test_an_offset_expires_with_the_millisecond_that_makes_it_old_enough(
    clock: GroupClock, commit: int, expire: int, oldest: int
) -> None:
    """A retention of 100 ms after what it ages from, or when its client said."""
    found = [is_expired(clock, Millis(commit), Millis(expire), Millis(oldest + ms), 100) for ms in (-1, 0, 1)]
    assert found == [False, True, True]


@pytest.mark.parametrize("expire", [-1, 0])
def test_what_is_held_does_not_expire(expire: int) -> None:
    """Whatever its client said, and however old it is."""
    assert not is_expired(HELD, Millis(0), Millis(expire), Millis(2**62), 1)

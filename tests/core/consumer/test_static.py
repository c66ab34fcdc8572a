"""Static members: they leave temporarily and return with another id, without effects on others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.consumer.support import (
    SESSION_TIMEOUT_MS,
    Client,
    ConsumerHarness,
    pairs,
    settle,
    topic_id,
)

from headgate.core.consumer.group import ConsumerState
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId

STATIC: dict[str, Any] = {"instance_id": "i"}
AWAY = -2


def two_members() -> tuple[ConsumerHarness, Client, Client]:
    """Return a group of a static member with instance id i and a dynamic one, both in epoch 3."""
    h = ConsumerHarness({"t": 4})
    static, dynamic = Client(h, "s", more=dict(STATIC)), Client(h, "d")
    settle(static)
    settle(static, dynamic)
    return h, static, dynamic


def test_a_returning_static_member_keeps_its_assignment() -> None:
    """With another id; the group epoch does not change."""
    h, static, dynamic = two_members()
    left = h.beat("s", AWAY, **STATIC)
    assert (left.error, left.member_id, left.member_epoch) == (ErrorCode.NONE, "s", AWAY)
    assert h.group.state is ConsumerState.RECONCILING
    back = h.join("s2", "t", **STATIC)
    assert (back.member_epoch, pairs(back.assigned)) == (3, static.owned)
    assert (h.group.epoch, h.group.state) == (3, ConsumerState.STABLE)
    assert set(h.group.members) == {"s2", "d"}
    assert h.beat("d", 3, reported=dynamic.owned).assigned is None


def test_its_assignment_epochs_become_zero() -> None:
    """Its commits are accepted with any epoch; the old id is unknown (R1.8)."""
    h, static, _ = two_members()
    (one, *_) = sorted(static.owned)
    h.beat("s", AWAY, **STATIC)
    epochs = h.group.member(MemberId("s")).current.assigned[topic_id("t")]
    assert set(epochs.values()) == {0}
    h.join("s2", "t", **STATIC)
    assert h.commit_as("s2", 1, one) is ErrorCode.NONE
    assert h.commit_as("s", 3, one) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_absent_member_may_commit_with_the_epoch_of_its_leave() -> None:
    """As in Kafka; any other epoch is too large."""
    h, static, _ = two_members()
    (one, *_) = sorted(static.owned)
    h.beat("s", AWAY, **STATIC)
    assert h.commit_as("s", AWAY, one) is ErrorCode.NONE
    assert h.commit_as("s", 3, one) is ErrorCode.STALE_MEMBER_EPOCH


def test_leaving_temporarily_twice_changes_nothing() -> None:
    """The second time no record is written."""
    h, _, _ = two_members()
    h.beat("s", AWAY, **STATIC)
    before = len(h.log)
    assert h.beat("s", AWAY, **STATIC).error is ErrorCode.NONE
    assert len(h.log) == before


def test_its_pending_revocations_are_complete_when_it_leaves() -> None:
    """It no longer reads them."""
    h = ConsumerHarness({"t": 4})
    static, dynamic = Client(h, "s", more=dict(STATIC)), Client(h, "d")
    settle(static)
    dynamic.beat()
    h.beat("s", 2, reported=static.owned, **STATIC)
    assert h.group.member(MemberId("s")).current.pending_revocation
    h.beat("s", AWAY, **STATIC)
    dynamic.beat()
    assert len(dynamic.owned) == 2


def test_an_absent_static_member_is_removed() -> None:
    """A session timeout after its last heartbeat; the leave does not restart the timer."""
    h, _, dynamic = two_members()
    h.advance(SESSION_TIMEOUT_MS // 2)
    h.beat("s", AWAY, **STATIC)
    settle(dynamic)
    h.advance(SESSION_TIMEOUT_MS // 2)
    assert set(h.group.members) == {"d"}
    settle(dynamic)
    assert len(dynamic.owned) == 4


def test_a_returned_member_has_its_own_session_timer() -> None:
    """The former timer does not remove it."""
    h, _, dynamic = two_members()
    h.beat("s", AWAY, **STATIC)
    h.advance(SESSION_TIMEOUT_MS - 1)
    h.join("s2", "t", **STATIC)
    dynamic.beat()
    h.advance(SESSION_TIMEOUT_MS - 1)
    assert "s2" in h.group.members


def test_a_static_member_that_leaves_permanently_frees_its_partitions() -> None:
    """Like any other."""
    h, _, dynamic = two_members()
    assert h.beat("s", -1, **STATIC).error is ErrorCode.NONE
    settle(dynamic)
    assert len(dynamic.owned) == 4


@pytest.mark.parametrize(
    ("member_id", "epoch", "instance_id", "error"),
    [
        ("other", 0, "i", ErrorCode.UNRELEASED_INSTANCE_ID),
        ("other", 3, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("other", AWAY, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("other", -1, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("s", 3, "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("s", AWAY, "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("s", 4, "i", ErrorCode.FENCED_MEMBER_EPOCH),
        ("s", 3, "i", ErrorCode.NONE),
        ("s", 0, "i", ErrorCode.NONE),
    ],
)
def test_a_present_static_member_cannot_be_replaced(
    member_id: str, epoch: int, instance_id: str, error: ErrorCode
) -> None:
    """One row per heartbeat; `s` is the member with instance id i, in epoch 3."""
    h, _, _ = two_members()
    if epoch == 0:
        result = h.join(member_id, "t", instance_id=instance_id)
    else:
        result = h.beat(member_id, epoch, instance_id=instance_id)
    assert result.error is error


@pytest.mark.parametrize("interval_ms", ["0", "1000"])
@pytest.mark.parametrize("other", [{}, {"instance_id": "j"}])
def test_a_member_that_replaces_a_static_one_releases_its_own_partitions(
    other: dict[str, Any], interval_ms: str
) -> None:
    """They are reassigned, and its earlier commits are refused."""
    h = ConsumerHarness({"t": 6}, group_consumer_assignment_interval_ms=interval_ms)
    static, second, third = Client(h, "s", more=dict(STATIC)), Client(h, "d", more=other), Client(h, "x")
    for _ in range(4):
        for client in (static, second, third):
            client.beat()
        h.advance(1_000)
    before = second.epoch
    (lost, *_) = sorted(second.owned)
    h.beat("s", AWAY, **STATIC)
    second.epoch, second.owned, second.more = 0, frozenset(), dict(STATIC)
    second.beat()
    assert second.epoch > before
    assert h.commit_as("d", before, lost) is not ErrorCode.NONE
    for _ in range(4):
        h.advance(1_000)
        second.beat()
        third.beat()
    assert len(second.owned | third.owned) == 6
    assert set(h.group.members) == {"d", "x"}
    assert set(h.group.instances) == {"i"}
    h.advance(SESSION_TIMEOUT_MS // 2)
    second.beat()
    third.beat()
    h.advance(SESSION_TIMEOUT_MS // 2 + 1)
    assert set(h.group.members) == {"d", "x"}, "no timer of a former life is left"


def test_a_member_that_replaces_a_static_one_leaves_no_records() -> None:
    """Neither an expression nor a second vote for an assignor."""
    h = ConsumerHarness({"t": 2})
    h.join("s", "t", **STATIC, server_assignor="range")
    h.beat(
        "d",
        0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_regex="t.*",
        reported=[],
        server_assignor="range",
    )
    h.advance(0)
    assert set(h.group.regexes) == {"t.*"}
    h.beat("s", AWAY, **STATIC)
    h.join("d", "t", **STATIC)
    assert not h.group.regexes
    assert h.group.assignor_votes == {"range": 1}
    assert not h.group.subscriptions.regex_users


def test_a_full_group_accepts_returning_static_members() -> None:
    """They need no new place."""
    h = ConsumerHarness(group_consumer_max_size="1")
    h.join("s", "t", **STATIC)
    h.beat("s", AWAY, **STATIC)
    assert h.join("s2", "t", **STATIC).error is ErrorCode.NONE
    assert h.join("x", "t", instance_id="j").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_returning_member_with_another_subscription_raises_the_epoch() -> None:
    """It revokes unsubscribed partitions and gets the others."""
    h = ConsumerHarness()
    h.join("s", "t", **STATIC)
    h.beat("s", AWAY, **STATIC)
    client = Client(h, "s2", ("u",), dict(STATIC))
    settle(client)
    assert (set(client.owned), h.group.epoch) == ({("u", 0), ("u", 1)}, 3)


def test_a_temporary_leave_survives_a_crash() -> None:
    """The member may return after it."""
    h, static, _ = two_members()
    h.beat("s", AWAY, **STATIC)
    h.reload()
    assert pairs(h.join("s2", "t", **STATIC).assigned) == static.owned

"""Dynamic members: joins, heartbeats, fencing, leaves, and timeouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.core.consumer.support import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Client,
    ConsumerHarness,
    beat,
    joining,
    pairs,
    settle,
    topics,
)

from headgate.core.consumer.commands import LEAVING
from headgate.core.consumer.group import ConsumerState
from headgate.core.consumer.removal import LAST_EPOCH
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId
from headgate.records import (
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMetadata,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecordType,
    MemberState,
    encode,
)

FENCED = ErrorCode.FENCED_MEMBER_EPOCH


def all_of(name: str, count: int) -> frozenset[tuple[str, int]]:
    """All partitions of a topic."""
    return frozenset((name, partition) for partition in range(count))


# --- joining ---


def test_the_first_member_gets_everything_in_epoch_two() -> None:
    """Epoch 1 is that of a group without an assignment."""
    h = ConsumerHarness()
    result = h.join("a", "t")
    assert (result.error, result.member_id, result.member_epoch) == (ErrorCode.NONE, "a", 2)
    assert result.heartbeat_interval_ms == 5_000
    assert pairs(result.assigned) == all_of("t", 3)
    assert h.group.state is ConsumerState.STABLE


def test_a_member_without_topics_is_in_epoch_one() -> None:
    """An empty regular expression and no names are a valid join."""
    h = ConsumerHarness()
    result = h.beat("a", 0, **joining(), subscribed_topic_regex="")
    assert (result.error, result.member_epoch, result.assigned) == (ErrorCode.NONE, 1, {})
    assert (h.group.epoch, h.group.assignment_epoch, h.group.state) == (1, 1, ConsumerState.STABLE)


def test_partitions_move_when_their_owner_has_revoked_them() -> None:
    """The new member waits in the new epoch; the old one keeps the rest all the time."""
    h = ConsumerHarness()
    a = h.join("a", "t")
    b = h.join("b", "t")
    assert (b.member_epoch, b.assigned) == (3, {})
    asked = h.beat("a", a.member_epoch, reported=all_of("t", 3))
    kept = pairs(asked.assigned)
    assert asked.member_epoch == a.member_epoch, "it stays in its epoch until it has revoked"
    assert h.group.member(MemberId("a")).current.state is MemberState.UNREVOKED_PARTITIONS
    assert h.beat("b", 3, reported=[]).assigned is None
    done = h.beat("a", a.member_epoch, reported=kept)
    assert (done.member_epoch, done.assigned) == (3, None)
    given = h.beat("b", 3, reported=[])
    assert pairs(given.assigned) == all_of("t", 3) - kept
    assert h.group.state is ConsumerState.STABLE


def test_three_members_join_and_leave_and_share_all_partitions() -> None:
    """However they heartbeat, each partition ends up with one owner."""
    h = ConsumerHarness({"t": 7})
    a, b, c = (Client(h, name) for name in "abc")
    settle(a)
    settle(a, b, c)
    assert sorted(len(one.owned) for one in (a, b, c)) == [2, 2, 3]
    assert a.owned | b.owned | c.owned == all_of("t", 7)
    h.beat("b", -1)
    settle(a, c)
    assert a.owned | c.owned == all_of("t", 7)
    assert not a.owned & c.owned


def test_a_full_group_refuses_new_members() -> None:
    """Its members continue, and may rejoin."""
    h = ConsumerHarness(group_consumer_max_size="1")
    assert h.join("a", "t").error is ErrorCode.NONE
    assert h.join("b", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.join("a", "t").error is ErrorCode.NONE
    assert h.beat("b", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rejoining_member_gets_its_whole_assignment() -> None:
    """It reports no partitions: its pending revocations are complete."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.join("b", "t")
    h.beat("a", 2, reported=all_of("t", 3))
    assert h.group.member(MemberId("a")).current.pending_revocation
    again = h.join("a", "t")
    assert (again.error, again.member_epoch, len(pairs(again.assigned))) == (ErrorCode.NONE, 3, 2)
    assert h.group.member(MemberId("a")).current.state is MemberState.STABLE


# --- staying ---


def test_a_heartbeat_without_changes_writes_no_record() -> None:
    """And returns no assignment."""
    h = ConsumerHarness()
    h.join("a", "t")
    before = len(h.log)
    result = h.beat("a", 2, reported=all_of("t", 3))
    assert (result.error, result.member_epoch, result.assigned) == (ErrorCode.NONE, 2, None)
    assert len(h.log) == before


def test_a_full_heartbeat_gets_a_full_response() -> None:
    """A client that lost a response sends all its fields."""
    h = ConsumerHarness()
    h.join("a", "t")
    everything = joining("t") | {"reported": all_of("t", 3)}
    assert pairs(h.beat("a", 2, **everything).assigned) == all_of("t", 3)
    assert h.beat("a", 2, **(everything | {"rebalance_timeout_ms": -1})).assigned is None


def test_a_changed_subscription_changes_the_assignment() -> None:
    """The group epoch rises; partitions of unsubscribed topics are revoked first."""
    h = ConsumerHarness()
    h.join("a", "t")
    changed = h.beat("a", 2, subscribed_topic_names=("u",), reported=all_of("t", 3))
    assert (changed.member_epoch, changed.assigned) == (2, {})
    assert pairs(h.beat("a", 2, reported=[]).assigned) == all_of("u", 2)
    assert h.group.epoch == 3


def test_the_order_of_names_in_a_subscription_is_ignored() -> None:
    """So are duplicates."""
    h = ConsumerHarness()
    h.join("a", "u", "t")
    before = len(h.log)
    h.beat("a", 2, subscribed_topic_names=("t", "u", "t"))
    assert len(h.log) == before


@pytest.mark.parametrize(
    ("epoch", "reported", "error"),
    [
        (5, [], FENCED),
        (3, [], ErrorCode.NONE),
        (3, None, ErrorCode.NONE),
        (3, all_of("t", 3), ErrorCode.NONE),
        (2, [], ErrorCode.NONE),
        (2, [("t", 0)], ErrorCode.NONE),
        (2, None, FENCED),
        (2, all_of("t", 3), FENCED),
        (2, [("u", 0)], FENCED),
        (1, [], FENCED),
    ],
)
def test_the_current_epoch_is_valid_or_the_previous_one_after_a_lost_response(
    epoch: int, reported: Any, error: ErrorCode
) -> None:
    """The latter only with partitions that it owns; the member is in epoch 3 and has two of three."""
    h = ConsumerHarness()
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    settle(a, b)
    assert (a.epoch, ("t", 0) in a.owned, len(a.owned)) == (3, True, 2)
    assert h.beat("a", epoch, reported=reported).error is error
    assert h.beat("nobody", epoch, reported=reported).error is ErrorCode.UNKNOWN_MEMBER_ID


# --- leaving ---


def test_a_member_that_leaves_frees_its_partitions() -> None:
    """The response has the epoch of the leave; the others get its partitions."""
    h = ConsumerHarness()
    a, b = Client(h, "a"), Client(h, "b")
    settle(a, b)
    left = h.beat("a", -1)
    assert (left.error, left.member_id, left.member_epoch) == (ErrorCode.NONE, "a", -1)
    settle(b)
    assert b.owned == all_of("t", 3)
    assert h.beat("a", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_last_member_has_left_the_empty_target_is_that_of_the_last_epoch() -> None:
    """The group is Empty, not Assigning, and has the time since when."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.beat("a", -1)
    assert (h.group.epoch, h.group.assignment_epoch, h.group.state) == (3, 3, ConsumerState.EMPTY)
    assert h.group.metadata is not None
    assert h.group.metadata.empty_since == h.now
    assert not h.group.owners


def test_epochs_continue_when_an_empty_group_gets_members() -> None:
    """And it is not empty any more."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.beat("a", -1)
    result = h.join("b", "t")
    assert (result.member_epoch, pairs(result.assigned)) == (4, all_of("t", 3))
    assert h.group.metadata is not None
    assert h.group.metadata.empty_since == -1


# --- being late ---


def test_a_member_that_is_silent_for_a_session_is_removed() -> None:
    """Each heartbeat restarts the session timer."""
    h = ConsumerHarness()
    a, b = Client(h, "a"), Client(h, "b")
    settle(a, b)
    h.advance(SESSION_TIMEOUT_MS - 1)
    b.beat()
    h.advance(1)
    assert set(h.group.members) == {"b"}
    settle(b)
    assert b.owned == all_of("t", 3)
    assert h.beat("a", a.epoch).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_expire_together_are_removed_one_by_one() -> None:
    """Each removal sees the effects of the one before it."""
    h = ConsumerHarness()
    settle(*(Client(h, name) for name in "abc"))
    h.advance(SESSION_TIMEOUT_MS + 1_000)
    assert h.group.state is ConsumerState.EMPTY


def test_a_crash_restarts_session_timers() -> None:
    """No member is removed for it."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.advance(SESSION_TIMEOUT_MS - 1)
    h.reload()
    h.advance(SESSION_TIMEOUT_MS - 1)
    assert set(h.group.members) == {"a"}
    h.advance(1)
    assert h.group.is_empty


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_member_that_does_not_revoke_in_time_is_removed(is_reloaded: bool) -> None:
    """After its rebalance timeout, in spite of heartbeats, and after a crash."""
    h = ConsumerHarness()
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    b.beat()
    h.beat("a", 2, reported=all_of("t", 3))
    if is_reloaded:
        h.reload()
    for _ in range(6):
        h.advance(REBALANCE_TIMEOUT_MS // 6 - 1)
        h.beat("a", 2, reported=all_of("t", 3))
        b.beat()
    h.advance(6)
    assert set(h.group.members) == {"b"}
    settle(b)
    assert b.owned == all_of("t", 3)


def test_a_member_that_revokes_in_time_is_not_removed() -> None:
    """The timer ends with the revocation."""
    h = ConsumerHarness()
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    settle(a, b)
    for _ in range(4):
        h.advance(SESSION_TIMEOUT_MS - 1)
        settle(a, b)
    assert set(h.group.members) == {"a", "b"}


def test_a_member_in_an_unknown_state_must_rejoin() -> None:
    """It is fenced until it reports no partitions."""
    h = ConsumerHarness()
    h.join("a", "t")
    strange = replace(h.group.member(MemberId("a")).current, state=MemberState.UNKNOWN)
    h.shard.apply(strange, len(h.log))
    h.log.append(encode(strange))
    h.reload()
    assert h.beat("a", 2, reported=all_of("t", 3)).error is FENCED
    assert h.beat("a", 2, reported=[]).error is ErrorCode.NONE
    assert h.group.state is ConsumerState.STABLE


# --- topics ---


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_new_partitions_are_assigned(is_reloaded: bool) -> None:
    """With the next heartbeat, also if the topic changed during a crash."""
    h = ConsumerHarness()
    a = Client(h, "a")
    settle(a)
    if is_reloaded:
        h.topics = topics(t=5, u=2)
        h.reload()
    else:
        h.change_topics(topics(t=5))
    settle(a)
    assert (a.owned, h.group.epoch) == (all_of("t", 5), 3)


def test_a_topic_created_after_the_subscription_is_assigned() -> None:
    """The member named it before it existed."""
    h = ConsumerHarness()
    a = Client(h, "a", ("t", "new"))
    settle(a)
    assert a.owned == all_of("t", 3)
    h.change_topics(topics(new=2))
    settle(a)
    assert a.owned == all_of("t", 3) | all_of("new", 2)


def test_unsubscribed_topics_do_not_affect_a_group() -> None:
    """Its epoch does not change."""
    h = ConsumerHarness()
    settle(Client(h, "a"))
    h.change_topics(topics(other=9, u=7))
    settle(Client(h, "a", epoch=2, owned=all_of("t", 3)))
    assert h.group.epoch == 2


def test_a_load_alone_does_not_raise_the_epoch() -> None:
    """The hash in the record shows that the topics are the same."""
    h = ConsumerHarness()
    a = Client(h, "a")
    settle(a)
    before = len(h.log)
    h.reload()
    settle(a)
    assert len(h.log) == before


# --- records ---


def test_a_leaving_member_leaves_no_record() -> None:
    """Each has a tombstone."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.join("b", "t")
    h.beat("a", -1)
    tombstones = [one for one in h.batches[-1] if isinstance(one, ConsumerGroupTombstone)]
    assert {(one.record_type, one.name) for one in tombstones} == {
        (ConsumerRecordType.CURRENT_ASSIGNMENT, "a"),
        (ConsumerRecordType.TARGET_MEMBER, "a"),
        (ConsumerRecordType.MEMBER, "a"),
    }


def test_several_consecutive_responses_may_be_lost() -> None:
    """The epoch that the member knows stays valid until it gets another one."""
    h = ConsumerHarness()
    h.join("a", "t")
    for count in (4, 5, 6):
        h.change_topics(topics(t=count))
        assert h.beat("a", 2, reported=all_of("t", 3)).error is ErrorCode.NONE
    again = h.beat("a", 2, **(joining("t") | {"reported": all_of("t", 3)}))
    assert (again.member_epoch, pairs(again.assigned)) == (5, all_of("t", 6))


def test_a_delayed_request_does_not_fence_its_member() -> None:
    """It moves the member to an epoch that it does not know; the one it knows stays valid."""
    h = ConsumerHarness()
    a = Client(h, "a")
    settle(a)
    h.join("b", "u")
    old = beat("a", a.epoch, reported=a.owned)
    a.beat()
    known = a.epoch
    h.join("c", "u")
    assert h.ask(old).member_epoch == known + 1
    a.beat()
    assert (a.epoch, a.is_member) == (known + 1, True)


def test_a_rejoined_member_is_fenced_with_an_earlier_epoch() -> None:
    """It has sent no epoch since its join."""
    h = ConsumerHarness()
    a = Client(h, "a")
    settle(a)
    old = beat("a", a.epoch, reported=[])
    h.beat("a", -1)
    h.join("a", "t")
    assert h.group.member(MemberId("a")).member_epoch > old.member_epoch
    assert h.ask(old).error is FENCED


def at_last_epoch(*member_ids: str) -> ConsumerHarness:
    """A group whose members have all they are to have in the last epoch there is."""
    h = ConsumerHarness()
    clients = [Client(h, one) for one in member_ids]
    settle(*clients)
    for record in list(h.group.records()):
        match record:
            case ConsumerGroupMetadata():
                h.write(replace(record, epoch=LAST_EPOCH))
            case ConsumerGroupTargetMetadata():
                h.write(replace(record, assignment_epoch=LAST_EPOCH))
            case ConsumerGroupCurrentAssignment():
                h.write(replace(record, member_epoch=LAST_EPOCH))
    h.reload()
    return h


@pytest.mark.parametrize("what", ["join", "leave", "session", "topics"])
def test_after_the_last_epoch_a_group_starts_again(what: str) -> None:
    """Whatever raises the epoch: all members rejoin."""
    h = at_last_epoch("a", "b")
    assert h.beat("a", LAST_EPOCH).member_epoch == LAST_EPOCH
    match what:
        case "join":
            assert h.join("c", "t").error is ErrorCode.UNKNOWN_MEMBER_ID
        case "leave":
            assert h.beat("b", LEAVING).error is ErrorCode.NONE
        case "session":
            h.advance(SESSION_TIMEOUT_MS)
        case "topics":
            h.change_topics(topics(t=5))
            assert h.beat("a", LAST_EPOCH).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.beat("a", LAST_EPOCH).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.commit_as("a", LAST_EPOCH, ("t", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (h.group.epoch, h.group.assignment_epoch, h.group.members) == (0, 0, {})
    h.reload()
    joined = h.join("a", "t")
    assert joined.error is ErrorCode.NONE
    assert 0 < joined.member_epoch < 3
    assert pairs(joined.assigned) == {("t", one) for one in range(5 if what == "topics" else 3)}
    h.advance(10 * SESSION_TIMEOUT_MS)
    assert h.group.is_empty

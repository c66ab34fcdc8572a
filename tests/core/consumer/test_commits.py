"""Commits and fetches of members, checked by the assignment epoch of each partition (KIP-1251)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.core.consumer.support import (
    SESSION_TIMEOUT_MS,
    Client,
    ConsumerHarness,
    G,
    pairs,
    settle,
    topics,
)

from headgate.core.offsets.commands import CommitOffsets, FetchOffsets, OffsetColumns
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId, TopicName
from headgate.records import encode

NONE = ErrorCode.NONE
STALE = ErrorCode.STALE_MEMBER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def moved_one() -> tuple[ConsumerHarness, Client, Client, tuple[str, int], tuple[str, int]]:
    """Member a was alone in epoch 2 and gave one of two partitions to b in epoch 3.

    The harness, both members, the partition that a kept, and the one that moved.
    """
    h = ConsumerHarness({"t": 2, "u": 1})
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    settle(a, b)
    (kept,), (moved,) = a.owned, b.owned
    assert (a.epoch, b.epoch) == (3, 3)
    return h, a, b, kept, moved


def test_a_commit_with_the_previous_epoch_is_accepted_for_kept_partitions() -> None:
    """It was in flight when the epoch rose; the member owned the partition all the time (R1.1)."""
    h, _, _, kept, _ = moved_one()
    assert h.commit_as("a", 2, kept) is NONE
    assert h.offset(G, *kept) == 7


def test_a_commit_with_the_previous_epoch_is_refused_for_moved_partitions() -> None:
    """Another member owns it now: a zombie's commit (R1.1, R1.5)."""
    h, _, _, _, moved = moved_one()
    assert h.commit_as("a", 2, moved) is STALE
    assert h.offset(G, *moved) is None


def test_one_refused_partition_refuses_the_whole_commit() -> None:
    """Nothing is written, also not for partitions before it."""
    h, _, _, kept, moved = moved_one()
    before = len(h.log)
    assert h.commit_as("a", 2, kept, moved) is STALE
    assert len(h.log) == before


def test_in_its_current_epoch_a_member_may_commit_any_partition() -> None:
    """Also those of other owners, as without assignment epochs (R1.2)."""
    h, _, _, kept, moved = moved_one()
    assert h.commit_as("a", 3, kept, moved, ("u", 0)) is NONE


def test_a_future_epoch_is_refused() -> None:
    """For any partition."""
    h, _, _, kept, _ = moved_one()
    assert h.commit_as("a", 4, kept) is STALE


def test_a_new_owner_may_not_commit_with_an_earlier_epoch() -> None:
    """The partition is b's since epoch 3; b was in no earlier epoch."""
    h, _, b, _, moved = moved_one()
    assert h.commit_as("b", 2, moved) is STALE
    assert h.commit_as("b", 3, moved) is NONE
    assert b.epoch == 3


def test_a_partition_pending_revocation_is_still_owned() -> None:
    """The last commit before the revocation is accepted, also with the previous epoch (R1.3)."""
    h = ConsumerHarness({"t": 2})
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    h.beat("a", 2, subscribed_topic_names=("t", "v"), reported=a.owned)
    settle(a)
    assert a.epoch == 3
    b.beat()
    h.beat("a", 3, reported=a.owned)
    (pending,) = h.group.member(MemberId("a")).current.pending_revocation.values()
    (partition,) = pending
    assert h.commit_as("a", 2, ("t", partition)) is NONE
    assert h.commit_as("a", 1, ("t", partition)) is STALE


def test_a_revoked_partition_moves_only_with_a_later_epoch() -> None:
    """Not while a newer target revokes more: in its present epoch the member's commits would be accepted."""
    h = ConsumerHarness({"t": 3})
    a = Client(h, "a")
    settle(a)
    h.join("b", "t")
    (first,) = a.owned - pairs(h.beat("a", 2, reported=a.owned).assigned)
    h.join("c", "t")
    after = h.beat("a", 2, reported=a.owned - {first})
    second = a.owned - {first} - pairs(after.assigned)
    assert (after.member_epoch, len(second)) == (2, 1)
    assert first not in pairs(h.beat("b", 3, reported=[]).assigned)
    assert h.commit_as("a", 2, first) is NONE
    assert h.beat("a", 2, reported=a.owned - {first} - second).member_epoch == 4
    assert h.commit_as("a", 2, first) is STALE


def test_a_partition_assigned_again_has_a_new_assignment_epoch() -> None:
    """Earlier commits are refused for ever (zombie safety)."""
    h, a, _, _, moved = moved_one()
    h.beat("b", -1)
    settle(a)
    assert (moved in a.owned, a.epoch) == (True, 4)
    assert h.commit_as("a", 2, moved) is STALE
    assert h.commit_as("a", 3, moved) is STALE
    assert h.commit_as("a", 4, moved) is NONE


def test_assignment_epochs_survive_a_crash() -> None:
    """They are in the records (R1.6)."""
    h, _, _, kept, moved = moved_one()
    h.reload()
    assert h.commit_as("a", 2, moved) is STALE
    assert h.commit_as("a", 2, kept) is NONE


def test_a_recreated_topic_is_another_topic() -> None:
    """Its partitions have no owner until they are assigned."""
    h, _, _, kept, _ = moved_one()
    h.change_topics(topics(t=2, life=1))
    assert h.commit_as("a", 2, kept) is STALE
    assert h.commit_as("a", 3, kept) is NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "more", "error"),
    [
        ("nobody", 3, {}, UNKNOWN),
        ("", -1, {}, UNKNOWN),
        ("", 3, {}, UNKNOWN),
        ("a", -1, {}, STALE),
        ("a", 3, {"knows_group_not_found": False}, ErrorCode.UNSUPPORTED_VERSION),
        ("a", 9, {"knows_group_not_found": False}, ErrorCode.UNSUPPORTED_VERSION),
        ("nobody", 3, {"knows_group_not_found": False}, UNKNOWN),
        ("a", 3, {"instance_id": "whatever"}, NONE),
    ],
)
def test_commits_to_a_group_with_members_are_checked_in_kafkas_order(
    member_id: str, epoch: int, more: dict[str, Any], error: ErrorCode
) -> None:
    """One row per commit; `a` is in epoch 3. The instance id is ignored."""
    h, _, _, kept, _ = moved_one()
    assert h.commit_as(member_id, epoch, kept, **more) is error


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [("", -1, NONE), ("a", -1, NONE), ("a", -2, NONE), ("a", 2, UNKNOWN), ("", 3, UNKNOWN)],
)
def test_commits_to_an_empty_group_need_no_member(member_id: str, epoch: int, error: ErrorCode) -> None:
    """A commit with an epoch does (R1.7)."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.beat("a", -1)
    assert h.commit_as(member_id, epoch, ("t", 0)) is error


def test_a_removed_member_is_unknown() -> None:
    """Its commits are refused by its id (R1.10)."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.join("b", "t")
    h.advance(SESSION_TIMEOUT_MS - 1)
    h.beat("b", 3)
    h.advance(1)
    assert h.commit_as("a", 2, ("t", 0)) is UNKNOWN


def test_a_wide_commit_is_checked_like_any_other() -> None:
    """Every partition in columns."""
    h = ConsumerHarness({"t": 40})
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    settle(a, b)
    kept = sorted(partition for _, partition in a.owned)
    moved = sorted(partition for _, partition in b.owned)[0]

    def wide(*partitions: int) -> ErrorCode:
        indexes = np.array(partitions, np.int64)
        columns = OffsetColumns(indexes, indexes + 5, np.full(len(indexes), -1), "")
        command = CommitOffsets(G, [(TopicName("t"), columns)], member_id=MemberId("a"), generation=2)
        error = h.ask(command).error
        assert isinstance(error, ErrorCode)
        return error

    assert wide(*kept, moved) is STALE
    assert h.offset(G, "t", kept[0]) is None
    assert wide(*kept) is NONE
    assert h.offset(G, "t", kept[0]) == kept[0] + 5


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, NONE),
        ("a", 3, NONE),
        ("a", 2, STALE),
        ("a", 4, STALE),
        ("nobody", 3, UNKNOWN),
        (None, 3, UNKNOWN),
    ],
)
def test_a_fetch_of_a_member_must_have_its_current_epoch(
    member_id: str | None, epoch: int, error: ErrorCode
) -> None:
    """A fetch without a member is accepted."""
    h, _, _, kept, _ = moved_one()
    command = FetchOffsets(
        G,
        [(TopicName(kept[0]), [kept[1]])],
        member_id=None if member_id is None else MemberId(member_id),
        member_epoch=epoch,
    )
    result = h.ask(command)
    if error:
        assert result is error
    else:
        assert result.topics


@pytest.mark.parametrize("loads_from", [None, "log", "image", "compacted"])
def test_a_member_that_rejoins_at_once_is_in_a_new_epoch(loads_from: Any) -> None:
    """Though the target assignment is not old enough: its earlier commits are refused. This survives a crash,
    whatever the shard is loaded from.
    """
    h = ConsumerHarness({"t": 2}, group_consumer_assignment_interval_ms="1000")
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    h.advance(1_000)
    settle(a, b)
    (had,) = a.owned
    h.beat("a", -1)
    if loads_from is not None:
        h.loads_from = loads_from
        h.reload()
    a = Client(h, "a")
    a.beat()
    assert a.epoch > 3
    assert h.commit_as("a", 3, had) is STALE


def test_a_former_id_of_a_static_member_joins_in_a_new_epoch() -> None:
    """So its earlier commits are refused."""
    h = ConsumerHarness({"t": 2}, group_consumer_assignment_interval_ms="1000")
    a = Client(h, "a", more={"instance_id": InstanceId("i")})
    settle(a)
    h.beat("a", -2, instance_id=InstanceId("i"))
    h.join("other", "t", instance_id=InstanceId("i"))
    h.loads_from = "compacted"
    h.reload()
    assert h.join("a", "t").member_epoch > a.epoch
    assert h.commit_as("a", a.epoch, ("t", 0)) is STALE


def test_a_group_written_by_kafka_may_have_removed_members() -> None:
    """Its records do not say: a joining member gets an epoch that no member id had."""
    h = ConsumerHarness({"t": 2}, group_consumer_assignment_interval_ms="1000")
    settle(Client(h, "a"))
    metadata = h.group.metadata
    assert metadata is not None
    as_kafka = replace(metadata, last_removal_epoch=-1)
    h.shard.apply(as_kafka, 0)
    h.log.append(encode(as_kafka))
    assert h.join("b", "t").member_epoch == h.group.epoch


def test_joins_share_a_target_without_removals() -> None:
    """Also in a group that lost a member before its last target assignment (KIP-1263)."""
    h = ConsumerHarness({"t": 2}, group_consumer_assignment_interval_ms="1000")
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    h.advance(1_000)
    settle(a, b)
    h.beat("b", -1)
    h.advance(1_000)
    settle(a)
    epoch = h.group.assignment_epoch
    assert [h.join(one, "t").member_epoch for one in ("x", "y", "z")] == [epoch] * 3


# --- in transactions ---

ILLEGAL = ErrorCode.ILLEGAL_GENERATION


def test_transactional_commits_are_judged_by_assignment_epochs_too() -> None:
    """With ILLEGAL_GENERATION, the error that producers know, instead of STALE_MEMBER_EPOCH (R1.5)."""
    h, _, _, kept, moved = moved_one()
    assert h.commit_in_transaction_as("a", 2, kept) is NONE
    assert h.commit_in_transaction_as("a", 2, moved) is ILLEGAL
    assert h.commit_in_transaction_as("a", 2, kept, moved) is ILLEGAL
    assert h.commit_in_transaction_as("a", 3, kept, moved) is NONE
    assert h.commit_in_transaction_as("a", 4, kept) is ILLEGAL
    assert h.commit_in_transaction_as("x", 3, kept) is UNKNOWN
    h.end(7)
    assert h.offset(G, *kept) == 9


def test_transactional_commits_without_a_member_are_accepted() -> None:
    """Early versions of the request cannot name one (R1.7). With an instance id one is named."""
    h, _, _, kept, moved = moved_one()
    assert h.commit_in_transaction_as("", -1, kept, moved) is NONE
    assert h.commit_in_transaction_as("", -1, kept, instance_id="i") is UNKNOWN
    assert h.commit_as("", -1, kept) is UNKNOWN


def test_a_pending_offset_survives_the_last_member() -> None:
    """It counts when it is committed, whatever became of the group."""
    h, a, b, kept, _ = moved_one()
    assert h.commit_in_transaction_as("a", 3, kept) is NONE
    for client in (a, b):
        h.beat(client.member_id, -1)
    h.reload()
    h.end(7)
    assert h.offset(G, *kept) == 9

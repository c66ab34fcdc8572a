"""A group with many offsets is deleted in slices, and other commands run in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import pytest
from tests.core.harness import Harness, join
from tests.core.offsets.test_fetches_again import told
from tests.fetched import again

from headgate.core import group_deletion
from headgate.core.classic.commands import DescribeGroup
from headgate.core.commands import DeleteGroup, ListGroups
from headgate.core.consumer.commands import ConsumerHeartbeat
from headgate.core.offsets.commands import (
    NOTHING_COMMITTED,
    CommitOffsets,
    Commits,
    DeleteOffsets,
    FetchesAgain,
    FetchOffsets,
    OffsetToCommit,
)
from headgate.core.offsets.commit import shape_of
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicName
from headgate.records.columns import record_count

G, OTHER = GroupId("g"), GroupId("other")
T, U = TopicName("t"), TopicName("u")


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set small slices, so that few offsets need several of them."""
    monkeypatch.setattr(group_deletion, "OFFSETS_AT_ONCE", 20)
    monkeypatch.setattr(group_deletion, "OFFSETS_A_SLICE", 10)


def commit(h: Harness, group_id: GroupId, partitions: Sequence[int], topic: TopicName = T) -> None:
    """Commit offset 7 for each of these partitions, most of them with metadata."""
    to_commit = [OffsetToCommit(index, 7, -1, "m" if index % 3 else "") for index in partitions]
    h.ask(CommitOffsets(group_id, [(topic, to_commit)]))


def offset_count(h: Harness, group_id: GroupId) -> int:
    """Return the number of a group's offsets."""
    return len(h.shard.offsets.offsets_of(group_id))


def group_ids(h: Harness) -> set[str]:
    """Return the ids of all listed groups."""
    return {group.group_id for group in h.ask(ListGroups()).groups}


def largest_batch(h: Harness) -> int:
    """Return the number of records in the largest batch."""
    return max(sum(record_count(record) for record in batch) for batch in h.batches)


def test_a_group_of_few_offsets_goes_in_one_piece() -> None:
    """No client sees a part of it."""
    h = Harness()
    commit(h, G, range(19))
    h.batches.clear()
    assert h.ask(DeleteGroup(G)) is ErrorCode.NONE
    assert largest_batch(h) == 20
    assert not group_ids(h)


def test_a_wide_group_goes_in_slices_while_others_are_served() -> None:
    """The answer follows the last slice; commands in between are answered, other groups are unaffected."""
    h = Harness()
    commit(h, G, range(100))
    commit(h, G, range(30), U)
    commit(h, OTHER, range(30))
    h.batches.clear()
    token = h.send(DeleteGroup(G))
    rounds = 0
    while h.is_parked(token):
        before = offset_count(h, G)
        commit(h, OTHER, [rounds])
        assert G not in group_ids(h), "it is gone altogether from the beginning"
        h.advance(group_deletion.BETWEEN_SLICES_MS)
        rounds += 1
        assert offset_count(h, G) < before or not h.is_parked(token)
        assert rounds < 50
    assert rounds >= 10
    assert h.answers[token] is ErrorCode.NONE
    assert largest_batch(h) <= 21
    assert group_ids(h) == {OTHER}
    assert offset_count(h, OTHER) == 30
    assert h.ask(DeleteGroup(G)) is ErrorCode.GROUP_ID_NOT_FOUND


def seen(h: Harness, group_id: GroupId) -> object:
    """Return what clients can see of a group."""
    named = [(T, list(range(12))), (U, [0])]
    fetch = FetchOffsets(group_id, named)
    return (
        group_id in group_ids(h),
        [*h.ask(FetchOffsets(group_id, None)).topics],
        [one for one in told(fetch, h.ask(fetch)) if one[2] != NOTHING_COMMITTED],
        [told(fetch, found) for found in h.ask(FetchesAgain([again(fetch)]))],
        h.ask(DescribeGroup(group_id)),
        h.ask(DeleteOffsets(group_id, named)),
    )


def test_nobody_sees_a_part_of_a_group_that_is_being_deleted() -> None:
    """The group appears unknown, before and after a restart."""
    h = Harness()
    h.keeps_tombstones = True
    nothing = seen(h, G)
    commit(h, G, range(100))
    assert seen(h, G) != nothing
    token = h.send(DeleteGroup(G))
    for _ in range(3):
        assert h.is_parked(token)
        assert seen(h, G) == nothing
        h.advance(group_deletion.BETWEEN_SLICES_MS)
    h.reload()
    while offset_count(h, G):
        assert seen(h, G) == nothing
        h.advance(group_deletion.BETWEEN_SLICES_MS)
    assert seen(h, G) == nothing


@pytest.mark.parametrize("restarts", [False, True])
def test_a_group_that_is_being_deleted_cannot_be_brought_about_until_that_is_done(*, restarts: bool) -> None:
    """Commits and joins get a retriable error; afterwards nothing of the old group remains."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    h.keeps_tombstones = True
    commit(h, G, range(100))
    h.send(DeleteGroup(G))
    if restarts:
        h.reload()
    one = CommitOffsets(G, [(U, [OffsetToCommit(0, 5, -1, "")])])
    consumer = ConsumerHeartbeat(
        group_id=G, member_id=MemberId("m"), member_epoch=0, subscribed_topic_names=()
    )
    attempts: list[Callable[[], ErrorCode]] = [
        lambda: h.ask(one).error,
        lambda: h.ask(Commits([shape_of(one)], [[5]]))[0].error,
        lambda: h.ask(join(group_id=G, must_know_member_id=False)).error,
        lambda: h.ask(consumer).error,
    ]
    for attempt in attempts:
        assert attempt() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    h.advance(100 * group_deletion.BETWEEN_SLICES_MS)
    assert offset_count(h, G) == 0
    assert h.ask(one).error is ErrorCode.NONE
    assert offset_count(h, G) == 1
    assert G in group_ids(h)


def test_who_asks_again_gets_the_same_answer() -> None:
    """There is one deletion, whoever requested it."""
    h = Harness()
    commit(h, G, range(100))
    first, second = h.send(DeleteGroup(G)), h.send(DeleteGroup(G))
    h.advance(60 * group_deletion.BETWEEN_SLICES_MS)
    assert h.answers[first] is h.answers[second] is ErrorCode.NONE


def test_several_deletions_take_turns() -> None:
    """A wide one does not delay a narrower one."""
    h = Harness()
    commit(h, G, range(200))
    commit(h, OTHER, range(30))
    wide, narrow = h.send(DeleteGroup(G)), h.send(DeleteGroup(OTHER))
    while h.is_parked(narrow):
        h.advance(group_deletion.BETWEEN_SLICES_MS)
    assert h.is_parked(wide)
    h.advance(100 * group_deletion.BETWEEN_SLICES_MS)
    assert not h.is_parked(wide)
    assert not group_ids(h)


@pytest.mark.parametrize("loads_from", ["log", "image", "compacted"])
def test_after_a_crash_the_deletion_continues(loads_from: Literal["log", "image", "compacted"]) -> None:
    """The request has no answer; the group is gone, and soon all its offsets. Other groups remain."""
    h = Harness()
    h.keeps_tombstones = True
    h.loads_from = loads_from
    commit(h, G, range(100))
    commit(h, OTHER, range(30))
    h.send(DeleteGroup(G))
    h.advance(group_deletion.BETWEEN_SLICES_MS)
    h.reload()
    assert offset_count(h, G) > 0
    h.advance(100 * group_deletion.BETWEEN_SLICES_MS)
    assert offset_count(h, G) == 0
    assert group_ids(h) == {OTHER}


def test_many_offsets_are_deleted_as_one_value() -> None:
    """OffsetDelete of many partitions does not create a record for each; the remaining offsets are right."""
    h = Harness()
    commit(h, G, range(300))
    commit(h, G, range(5), U)
    h.batches.clear()
    h.ask(DeleteOffsets(G, [(T, [*range(50, 400), 60, -1]), (U, [1])]))
    assert [len(batch) for batch in h.batches] == [1]
    assert offset_count(h, G) == 50 + 4
    fetched = h.ask(FetchOffsets(G, [(T, [49, 50]), (U, [0, 1])]))
    assert [[stored is not None for _, stored in found] for _, found in fetched.topics] == [
        [True, False],
        [True, False],
    ]

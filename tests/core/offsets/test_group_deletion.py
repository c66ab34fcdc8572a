"""Deleting a group of many offsets goes in slices, and what comes in between is served."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.core.harness import Harness, join

from headgate.core import group_deletion
from headgate.core.commands import DeleteGroup, ListGroups
from headgate.core.offsets.commands import CommitOffsets, DeleteOffsets, FetchOffsets, OffsetToCommit
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records.columns import record_count

G, OTHER = GroupId("g"), GroupId("other")
T, U = TopicName("t"), TopicName("u")


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_deletion, "OFFSETS_AT_ONCE", 20)
    monkeypatch.setattr(group_deletion, "OFFSETS_A_SLICE", 10)


def commit(h: Harness, group_id: GroupId, partitions: Sequence[int], topic: TopicName = T) -> None:
    to_commit = [OffsetToCommit(index, 7, -1, "m" if index % 3 else "") for index in partitions]
    h.ask(CommitOffsets(group_id, [(topic, to_commit)]))


def offset_count(h: Harness, group_id: GroupId) -> int:
    return len(h.shard.offsets.offsets_of(group_id))


def group_ids(h: Harness) -> set[str]:
    return {group.group_id for group in h.ask(ListGroups()).groups}


def largest_batch(h: Harness) -> int:
    return max(sum(record_count(record) for record in batch) for batch in h.batches)


def test_a_group_of_few_offsets_goes_in_one_piece() -> None:
    """Nobody sees a part of it."""
    h = Harness()
    commit(h, G, range(19))
    h.batches.clear()
    assert h.ask(DeleteGroup(G)) is ErrorCode.NONE
    assert largest_batch(h) == 20
    assert not group_ids(h)


def test_a_wide_group_goes_in_slices_while_others_are_served() -> None:
    """The answer comes with the last slice; commands in between are answered, other groups are untouched."""
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
        assert G in group_ids(h), "it is there until it is gone altogether"
        h.advance(group_deletion.BETWEEN_SLICES_MS)
        rounds += 1
        assert offset_count(h, G) < before or not h.is_parked(token)
        assert rounds < 50
    assert rounds >= 10
    assert h.answers[token] is ErrorCode.NONE
    assert largest_batch(h) <= 20
    assert group_ids(h) == {OTHER}
    assert offset_count(h, OTHER) == 30
    assert h.ask(DeleteGroup(G)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_is_committed_meanwhile_goes_as_well() -> None:
    """A group that is deleted has no offsets left."""
    h = Harness()
    commit(h, G, range(100))
    token = h.send(DeleteGroup(G))
    h.advance(group_deletion.BETWEEN_SLICES_MS)
    commit(h, G, range(200, 215), U)
    commit(h, G, [0, 1])
    h.advance(60 * group_deletion.BETWEEN_SLICES_MS)
    assert h.answers[token] is ErrorCode.NONE
    assert offset_count(h, G) == 0
    assert not group_ids(h)


def test_who_asks_again_gets_the_same_answer() -> None:
    """One deletion is under way, whoever asked for it."""
    h = Harness()
    commit(h, G, range(100))
    first, second = h.send(DeleteGroup(G)), h.send(DeleteGroup(G))
    h.advance(60 * group_deletion.BETWEEN_SLICES_MS)
    assert h.answers[first] is h.answers[second] is ErrorCode.NONE


def test_several_deletions_take_turns() -> None:
    """A wide one does not hold up one that is narrower."""
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


def test_a_member_that_joins_meanwhile_ends_the_deletion() -> None:
    """The answer is that of Kafka for a group with members; what is left of its offsets stays."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    commit(h, G, range(100))
    token = h.send(DeleteGroup(G))
    h.advance(group_deletion.BETWEEN_SLICES_MS)
    h.send(join(group_id=G, must_know_member_id=False))
    h.advance(group_deletion.BETWEEN_SLICES_MS)
    assert h.answers[token] is ErrorCode.NON_EMPTY_GROUP
    left = offset_count(h, G)
    assert left
    h.advance(100 * group_deletion.BETWEEN_SLICES_MS)
    assert offset_count(h, G) == left


def test_after_a_crash_the_group_is_there_with_what_is_left_of_it() -> None:
    """Who asked has no answer; who asks again has the rest deleted."""
    h = Harness()
    commit(h, G, range(100))
    h.send(DeleteGroup(G))
    h.advance(group_deletion.BETWEEN_SLICES_MS)
    h.reload()
    left = offset_count(h, G)
    assert 0 < left < 100
    h.advance(100 * group_deletion.BETWEEN_SLICES_MS)
    assert offset_count(h, G) == left
    token = h.send(DeleteGroup(G))
    h.advance(100 * group_deletion.BETWEEN_SLICES_MS)
    assert h.answers[token] is ErrorCode.NONE
    assert not group_ids(h)


def test_many_offsets_are_deleted_as_one_value() -> None:
    """OffsetDelete of many partitions is not a record made and applied for each; what is left is right."""
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

"""Conditional commits (R3.16) in the core: which are refused, which are applied, and their replay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.harness import Harness

from headgate.core.offsets.commands import (
    CommitIndex,
    CommitOffsets,
    CommitResult,
    ExpectedOffsets,
    Moved,
    OffsetColumns,
    OffsetToCommit,
    expected_offsets,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicName

DONE = CommitResult(ErrorCode.NONE)
NOTHING = -1


def commit_if(
    harness: Harness, offsets: dict[int, int], expected: dict[int, int], metadata: str = ""
) -> CommitResult:
    """Commit an offset for each partition of topic t, with conditions on some of them."""
    partitions = [OffsetToCommit(partition, offset, -1, metadata) for partition, offset in offsets.items()]
    conditions = {list(offsets).index(one): offset for one, offset in expected.items()}
    result = harness.ask(
        CommitOffsets(GroupId("g"), [(TopicName("t"), partitions)], expected=[expected_offsets(conditions)])
    )
    assert isinstance(result, CommitResult)
    return result


def not_done(current: dict[int, int], too_large: frozenset[CommitIndex] = frozenset()) -> CommitResult:
    """Return the result of a refused commit, with the current offsets of these partitions."""
    moved = Moved(np.array(list(current), np.int64), np.array(list(current.values()), np.int64))
    return CommitResult(ErrorCode.NONE, too_large, [moved], is_attempted=False)


@pytest.mark.parametrize(
    ("offsets", "expected", "result"),
    [
        ({0: 6}, {0: 5}, DONE),
        ({0: 6}, {0: 6}, not_done({0: 5})),
        ({0: 6}, {0: NOTHING}, not_done({0: 5})),
        ({1: 6}, {1: NOTHING}, DONE),
        ({1: 6}, {1: 0}, not_done({0: NOTHING})),
        ({1: 7, 0: 6}, {0: 5}, DONE),
        ({1: 7, 0: 6}, {0: 4}, not_done({1: 5})),
        ({0: 6, 1: 6, 2: 6}, {0: 4, 1: NOTHING, 2: 3}, not_done({0: 5, 2: NOTHING})),
    ],
)
def test_a_commit_takes_place_when_all_conditions_hold_and_not_at_all_otherwise(
    offsets: dict[int, int], expected: dict[int, int], result: CommitResult
) -> None:
    """The answer to a refused commit has the committed offset of each partition whose condition failed."""
    harness = Harness()
    harness.commit("g", offset=5)
    assert commit_if(harness, offsets, expected) == result
    before: dict[int, int | None] = {0: 5, 1: None, 2: None}
    after = {**before, **offsets} if result == DONE else before
    assert {partition: harness.offset("g", partition=partition) for partition in before} == after


def test_a_group_comes_into_being_by_a_condition_that_holds_and_not_by_one_that_fails() -> None:
    """Nothing is committed in an unknown group."""
    harness = Harness()
    assert commit_if(harness, {0: 1}, {0: 7}) == not_done({0: NOTHING})
    assert list(harness.shard.offsets.group_ids()) == []
    assert commit_if(harness, {0: 1}, {0: NOTHING}) == DONE
    assert harness.offset("g") == 1


def test_with_a_condition_metadata_too_long_fails_the_whole_commit() -> None:
    """Without a condition, only the partition itself fails (R3.2)."""
    harness = Harness(offset_metadata_max_bytes="3")
    everywhere = frozenset({(0, 0), (0, 1)})
    assert commit_if(harness, {0: 1, 1: 1}, {0: NOTHING}, "long") == not_done({}, everywhere)
    assert commit_if(harness, {0: 1, 1: 1}, {0: 4}, "long") == not_done({0: NOTHING}, everywhere)
    assert harness.offset("g") is None


def test_conditions_of_a_partition_named_twice_are_about_the_state_before() -> None:
    """The last offset is valid, as without conditions."""
    harness = Harness()
    harness.commit("g", offset=5)
    twice = [OffsetToCommit(0, 6, -1, ""), OffsetToCommit(0, 7, -1, "")]
    command = CommitOffsets(
        GroupId("g"), [(TopicName("t"), twice)], expected=[expected_offsets({0: 5, 1: 6})]
    )
    assert harness.ask(command) == not_done({1: 5})
    command.expected = [expected_offsets({0: 5, 1: 5})]
    assert harness.ask(command) == DONE
    assert harness.offset("g") == 7


def test_columns_have_conditions_too() -> None:
    """A wide commit is accepted and refused like a narrow one."""
    harness = Harness()
    indexes = np.arange(40)
    columns = OffsetColumns(indexes, indexes + 100, np.full(40, -1), "")
    command = CommitOffsets(GroupId("g"), [(TopicName("t"), columns)])
    command.expected = [expected_offsets({39: 1})]
    assert harness.ask(command) == not_done({39: NOTHING})
    assert harness.offset("g", partition=39) is None
    command.expected = [expected_offsets({39: NOTHING})]
    assert harness.ask(command) == DONE
    assert harness.offset("g", partition=39) == 139
    for at in (0, 39):
        elsewhere = indexes + 100
        elsewhere[at] += 7
        command.expected = [ExpectedOffsets(indexes, elsewhere)]
        assert harness.ask(command) == not_done({at: 100 + at})
    command.expected = [ExpectedOffsets(indexes, indexes + 100)]
    assert harness.ask(command) == DONE
    harness.commit("g", partition=3, offset=5, metadata="not in columns any more")
    assert harness.ask(command) == not_done({3: 5})


def test_a_member_that_is_refused_hears_that_and_nothing_of_conditions() -> None:
    """A client that is not a member learns nothing about the committed offsets."""
    harness = Harness()
    generation = harness.stable_group("a")
    to_commit = [(TopicName("t"), [OffsetToCommit(0, 1, -1, "")])]
    stranger = CommitOffsets(
        GroupId("g"), to_commit, MemberId("b"), generation, expected=[expected_offsets({0: 3})]
    )
    assert harness.ask(stranger) == CommitResult(ErrorCode.UNKNOWN_MEMBER_ID)
    member = CommitOffsets(
        GroupId("g"), to_commit, MemberId("a"), generation, expected=[expected_offsets({0: 3})]
    )
    assert harness.ask(member) == not_done({0: NOTHING})
    member.expected = [expected_offsets({0: NOTHING})]
    assert harness.ask(member) == DONE


OFFSETS = st.dictionaries(st.integers(0, 3), st.integers(0, 2), min_size=1)
EXPECTED = st.dictionaries(st.integers(0, 3), st.integers(-1, 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(OFFSETS, EXPECTED), max_size=12), st.integers(0, 12))
def test_any_history_of_commits_is_that_of_a_dict(
    history: list[tuple[dict[int, int], dict[int, int]]], crash_at: int
) -> None:
    """Compare-and-set on a dict has the same answers and the same result, also with a crash in between; the
    harness replays the log after every step.
    """
    harness = Harness()
    model: dict[int, int] = {}
    for number, (offsets, expected) in enumerate(history):
        if number == crash_at:
            harness.reload()
        conditions = {one: offset for one, offset in expected.items() if one in offsets}
        failed = {
            place: model.get(one, NOTHING)
            for place, one in enumerate(offsets)
            if one in conditions and conditions[one] != model.get(one, NOTHING)
        }
        result = commit_if(harness, offsets, conditions)
        assert result == (not_done(failed) if failed else DONE)
        if not failed:
            model |= offsets
        assert {one: harness.offset("g", partition=one) for one in range(4)} == {
            one: model.get(one) for one in range(4)
        }


def test_the_offset_that_means_nothing_removes_in_the_same_step() -> None:
    """With a condition, the offset -1 removes the committed offset, if there is one."""
    harness = Harness()
    harness.commit("g", offset=5)
    assert commit_if(harness, {0: NOTHING, 1: 7, 2: NOTHING}, {0: 5, 1: NOTHING, 2: NOTHING}) == DONE
    assert [harness.offset("g", partition=partition) for partition in range(3)] == [None, 7, None]
    assert commit_if(harness, {1: NOTHING}, {1: 6}) == not_done({0: 7})
    assert harness.offset("g", partition=1) == 7
    columns = OffsetColumns(np.arange(2), np.array([NOTHING, 8]), np.array([-1, -1]), "")
    expected = ExpectedOffsets(np.arange(2), np.array([NOTHING, 7]))
    command = CommitOffsets(GroupId("g"), [(TopicName("t"), columns)], expected=[expected])
    assert harness.ask(command) == DONE
    assert [harness.offset("g", partition=partition) for partition in range(2)] == [None, 8]

"""Commits and fetches that come again: the same as saying it all once more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.harness import Harness, durable_state

from headgate.core.offsets.commands import (
    CommitAgain,
    CommitOffsets,
    CommitResult,
    FetchAgain,
    FetchedNumbers,
    FetchedOffsets,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
)
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName

GROUP = GroupId("g")
offsets = st.integers(0, 2**63 - 1)
WIDTH = 20


def narrow(partitions: list[int], values: list[int], metadata: str) -> list[OffsetToCommit]:
    return [OffsetToCommit(one, value, 3, metadata) for one, value in zip(partitions, values, strict=True)]


def wide(values: list[int]) -> OffsetColumns:
    return OffsetColumns(np.arange(WIDTH), np.array(values, np.int64), np.full(WIDTH, 3), "")


@st.composite
def commits(draw: st.DrawFn) -> list[tuple[CommitOffsets, list[int]]]:
    """The same commit several times, each with its offsets: two narrow topics and a wide one."""
    few = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    metadata = draw(st.sampled_from(["", "note"]))
    is_wide = draw(st.booleans())
    count = len(few) + 1 + (WIDTH if is_wide else 0)
    made = []
    for _ in range(draw(st.integers(1, 4))):
        values = draw(st.lists(offsets, min_size=count, max_size=count))
        end = len(few)
        topics: list[tuple[TopicName, list[OffsetToCommit] | OffsetColumns]] = [
            (TopicName("t"), narrow(few, values[:end], metadata)),
            (TopicName("u"), narrow([7], values[end : end + 1], "")),
        ]
        if is_wide:
            topics.append((TopicName("w"), wide(values[end + 1 :])))
        made.append((CommitOffsets(GROUP, topics), values))
    return made


@given(commits(), st.booleans())
def test_committing_again_is_committing_with_other_offsets(
    times: list[tuple[CommitOffsets, list[int]]], as_arrays: bool
) -> None:
    """However often in a row: what is committed, what is recorded and what is answered is the same."""
    one_by_one, again = Harness(), Harness()
    for command, _ in times:
        assert one_by_one.ask(command) == CommitResult(ErrorCode.NONE)
    before = times[0][0]
    numbers = [np.array(values, np.int64) if as_arrays else tuple(values) for _, values in times]
    assert again.ask(CommitAgain(before, numbers)) == CommitResult(ErrorCode.NONE)
    assert durable_state(again.shard) == durable_state(one_by_one.shard)
    assert again.log == one_by_one.log


def test_committing_again_is_refused_as_any_commit_is() -> None:
    """A generation that no group has refuses all of the row, and nothing is recorded."""
    harness = Harness()
    stale = CommitOffsets(GROUP, [(TopicName("t"), narrow([0], [5], ""))], generation=4)
    result = harness.ask(CommitAgain(stale, [(6,), (7,)]))
    assert result == CommitResult(ErrorCode.GROUP_ID_NOT_FOUND)
    assert harness.log == []


@pytest.mark.parametrize("metadata", ["", "note"])
def test_fetching_again_finds_the_numbers_or_all_there_is(metadata: str) -> None:
    """Offsets and leader epochs, -1 for what is not there; with metadata, everything."""
    harness = Harness()
    fetch = FetchOffsets(GROUP, [(TopicName("t"), [1, 0]), (TopicName("u"), [7])])
    unknown = harness.ask(FetchAgain(fetch))
    assert unknown == harness.ask(fetch), "nothing is known of the group"
    harness.ask(CommitOffsets(GROUP, [(TopicName("t"), narrow([1], [5], metadata))]))
    harness.ask(CommitOffsets(GROUP, [(TopicName("u"), narrow([8], [5], ""))]))
    found = harness.ask(FetchAgain(fetch))
    if metadata:
        assert isinstance(found, FetchedOffsets)
        assert found == harness.ask(fetch)
    else:
        assert found == FetchedNumbers([5, -1, -1], [3, -1, -1])


def test_all_offsets_are_fetched_with_the_ids_their_topics_have_then() -> None:
    """A topic that is gone has none, and one of its name that comes later has another."""
    h = Harness()

    def fetched() -> FetchedOffsets:
        found: FetchedOffsets = h.ask(FetchOffsets(GROUP, None))
        return found

    def change(topic_id: str | None) -> None:
        topic = None if topic_id is None else KnownTopic(TopicId(topic_id.encode() * 16), 3)
        h.ask(TopicsChanged([TopicChange(TopicName("t"), topic)]))

    change("a")
    h.ask(CommitOffsets(GROUP, [(TopicName("t"), narrow([1], [5], ""))]))
    first = fetched()
    change(None)
    assert (len(fetched().topics), fetched().topic_ids) == (1, {})
    change("b")
    assert (first.topic_ids, fetched().topic_ids) == ({"t": b"a" * 16}, {"t": b"b" * 16})

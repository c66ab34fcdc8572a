"""Repeated commits and fetches have the same effect as new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.harness import Harness, durable_state

from headgate.core.commands import DeleteGroup
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    Commits,
    CommitShape,
    DeleteOffsets,
    FetchedNumbers,
    FetchedOffsets,
    FetchesAgain,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
    RepeatedFetch,
)
from headgate.core.offsets.commit import shape_of
from headgate.core.offsets.table import OffsetTable
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.records import OffsetBatch, OffsetCommit, RecordShape

GROUP = GroupId("g")
offsets = st.integers(0, 2**63 - 1)
WIDTH = 20


def narrow(partitions: list[int], values: list[int], metadata: str) -> list[OffsetToCommit]:
    return [OffsetToCommit(one, value, 3, metadata) for one, value in zip(partitions, values, strict=True)]


def wide(values: list[int]) -> OffsetColumns:
    return OffsetColumns(np.arange(WIDTH), np.array(values, np.int64), np.full(WIDTH, 3), "")


@st.composite
def commits(draw: st.DrawFn) -> list[tuple[CommitOffsets, list[int]]]:
    """Draw the same commit several times, each with its offsets: two narrow topics and a wide one."""
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
    """In sequences of any length: the committed offsets, the records and the answers are equal."""
    one_by_one, again = Harness(), Harness()
    for command, _ in times:
        assert one_by_one.ask(command) == CommitResult(ErrorCode.NONE)
    before = times[0][0]
    numbers = [np.array(values, np.int64) if as_arrays else tuple(values) for _, values in times]
    shape = shape_of(before)
    assert again.ask(Commits([shape] * len(times), numbers)) == [CommitResult(ErrorCode.NONE)] * len(times)
    assert durable_state(again.shard) == durable_state(one_by_one.shard)
    assert again.log == one_by_one.log


def test_committing_again_is_refused_as_any_commit_is() -> None:
    """An unknown generation refuses the whole sequence, and nothing is recorded."""
    harness = Harness()
    stale = CommitOffsets(GROUP, [(TopicName("t"), narrow([0], [5], ""))], generation=4)
    results = harness.ask(Commits([shape_of(stale)] * 2, [(6,), (7,)]))
    assert results == [CommitResult(ErrorCode.GROUP_ID_NOT_FOUND)] * 2
    assert harness.log == []


def simple(group_id: str, topic: str, partitions: list[int], generation: int = -1) -> CommitOffsets:
    """Return a commit with placeholder offsets."""
    topics = [(TopicName(topic), narrow(partitions, [0] * len(partitions), ""))]
    return CommitOffsets(GroupId(group_id), topics, generation=generation)


KNOWN = [
    shape_of(simple("a", "t", [0])),
    shape_of(simple("b", "t", [1, 0, 1])),
    shape_of(simple("a", "t", [2, 3])),
    shape_of(simple("b", "u", [-5, 2**30])),
    shape_of(simple("c", "t", [0], generation=4)),
]
"""The last one is refused: no group has that generation."""


def by_itself(commit: CommitShape, values: tuple[int, ...]) -> CommitOffsets:
    """Return the commit as a new one."""
    ((topic, _),) = commit.asked.topics
    topics = [(topic, narrow([one.partition for one in commit.records or ()], list(values), ""))]
    return replace(commit.asked, topics=topics)


between = st.sampled_from(
    [
        CommitOffsets(GroupId("a"), [(TopicName("t"), narrow([0, 2], [1, 2], "note"))]),
        CommitOffsets(GroupId("b"), [(TopicName("t"), wide(list(range(WIDTH))))]),
        DeleteOffsets(GroupId("a"), [(TopicName("t"), [0, 3])]),
        DeleteOffsets(GroupId("b"), [(TopicName("u"), [-5])]),
        DeleteGroup(GroupId("a")),
        DeleteGroup(GroupId("b")),
    ]
)


@given(
    st.data(), st.lists(st.one_of(st.lists(st.integers(0, 4), min_size=1, max_size=8), between), max_size=8)
)
def test_repeated_commits_together_are_as_each_by_itself(data: st.DataObject, steps: list[Any]) -> None:
    """For any groups, in sequence or with deletions, metadata and wide commits between them."""
    one_by_one, together = Harness(), Harness()
    for step in steps:
        if not isinstance(step, list):
            assert together.ask(step) == one_by_one.ask(step)
            continue
        commits = [KNOWN[index] for index in step]
        values = [tuple(data.draw(offsets) for _ in commit.records or ()) for commit in commits]
        results = [one_by_one.ask(by_itself(*one)) for one in zip(commits, values, strict=True)]
        assert together.ask(Commits(commits, values)) == results
        assert durable_state(together.shard) == durable_state(one_by_one.shard)
    assert together.log == one_by_one.log


def test_rows_that_were_remembered_are_found_again_when_the_table_was_rebuilt() -> None:
    """Mass removals move every row; repeated commits update the right ones."""
    table = OffsetTable()
    topic, now = TopicName("t"), Millis(1)
    for group in range(3000):
        table.put(OffsetCommit(GroupId(f"g{group}"), topic, 0, group, -1, "", now))
    again = RecordShape(GroupId("z"), topic, 7, -1)
    table.put_batch(OffsetBatch([again], [1], now))
    for group in range(3000):
        table.remove(GroupId(f"g{group}"), topic, 0)
    table.put_batch(OffsetBatch([again, again], [2, 3], now))
    stored = table.get(again.group_id, topic, 7)
    assert stored is not None and stored.offset == 3
    assert len(table) == 1


@pytest.mark.parametrize("metadata", ["", "note"])
def test_fetching_again_finds_the_numbers_or_all_there_is(metadata: str) -> None:
    """Offsets and leader epochs, -1 for missing ones; with metadata, the full result."""
    harness = Harness()
    fetch = FetchOffsets(GROUP, [(TopicName("t"), [1, 0]), (TopicName("u"), [7])])
    unknown = harness.ask(FetchesAgain([RepeatedFetch(fetch)]))[0]
    assert unknown == harness.ask(fetch), "nothing is known of the group"
    harness.ask(CommitOffsets(GROUP, [(TopicName("t"), narrow([1], [5], metadata))]))
    harness.ask(CommitOffsets(GROUP, [(TopicName("u"), narrow([8], [5], ""))]))
    found = harness.ask(FetchesAgain([RepeatedFetch(fetch)]))[0]
    if metadata:
        assert isinstance(found, FetchedOffsets)
        assert found == harness.ask(fetch)
    else:
        assert found == FetchedNumbers([5, -1, -1], [3, -1, -1])


def test_all_offsets_are_fetched_with_the_ids_their_topics_have_then() -> None:
    """A deleted topic has none, and a new one of its name has another id."""
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

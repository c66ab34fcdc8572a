"""Commits in columns, of any shape: accepted, recorded and answered like the same single partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.harness import Harness, durable_state
from tests.fetched import each_fetched

from headgate.core.offsets import commit
from headgate.core.offsets.commands import (
    NO_RETENTION,
    CommitOffsets,
    CommitResult,
    Commits,
    ExpectedOffsets,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
    expected_offsets,
)
from headgate.core.offsets.commit import NARROWEST_ROWS, shape_of
from headgate.core.offsets.wide_rows import NARROWEST_WIDE
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import ColumnBatch
from headgate.records.offset_rows import OffsetRows

G, T = GroupId("g"), TopicName("t")
NOTHING = -1
METADATA_LIMIT = 5

partitions = st.one_of(st.integers(0, 20), st.sampled_from([262_143, 262_144, 600_000]))
offsets = st.integers(-1, 2)
metadata = st.sampled_from(["", "", "m", "note", "ääää", "too long"])
to_commit = st.builds(OffsetToCommit, partitions, offsets, st.integers(-1, 2), metadata)


@dataclass(frozen=True)
class Shape:
    """A commit of one topic."""

    rows: list[OffsetToCommit]
    expected: Mapping[int, int] | None
    has_one_text: bool
    retention_ms: int = NO_RETENTION

    def one_by_one(self) -> CommitOffsets:
        """Return the commit as a list of partitions."""
        expected = None if self.expected is None else [expected_offsets(self.expected)]
        return CommitOffsets(G, [(T, self.rows)], retention_ms=self.retention_ms, expected=expected)

    def in_columns(self) -> CommitOffsets:
        """Return the commit in columns."""
        numbers = np.array([row[:3] for row in self.rows], np.int64)
        texts = [row.metadata for row in self.rows]
        columns = OffsetColumns(
            numbers[:, 0], numbers[:, 1], numbers[:, 2], texts[0] if self.has_one_text else texts
        )
        expected = None if self.expected is None else [expected_offsets(self.expected)]
        return CommitOffsets(G, [(T, columns)], retention_ms=self.retention_ms, expected=expected)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Draw commits without conditions, with some or with all; some expire; partitions may be repeated."""
    retention_ms = draw(st.sampled_from([NO_RETENTION, NO_RETENTION, 1000, (1 << 63) - 1]))
    rows = draw(st.lists(to_commit, min_size=1, max_size=3 * NARROWEST_WIDE))
    has_one_text = draw(st.booleans())
    if has_one_text:
        rows = [row._replace(metadata=rows[0].metadata) for row in rows]
    if not draw(st.booleans()):
        return Shape(rows, None, has_one_text, retention_ms)
    conditions = draw(st.dictionaries(st.integers(0, len(rows) - 1), offsets))
    return Shape(rows, conditions, has_one_text, retention_ms)


def with_true_conditions(shape: Shape, harness: Harness) -> Shape:
    """Return the same commit with conditions that are true."""
    if shape.expected is None:
        return shape
    committed = {index: harness.offset(G, T, shape.rows[index].partition) for index in shape.expected}
    return replace(
        shape, expected={index: NOTHING if offset is None else offset for index, offset in committed.items()}
    )


@settings(deadline=None)
@given(st.lists(st.tuples(shapes(), st.booleans()), min_size=1, max_size=5), st.sampled_from([1, 12]))
def test_a_commit_in_columns_is_the_commit_of_its_partitions(
    history: list[tuple[Shape, bool]], narrowest_rows: int
) -> None:
    """The same results, records in the same order, and offsets, after any commits and removals."""
    one_by_one, in_columns = (Harness(offset_metadata_max_bytes=str(METADATA_LIMIT)) for _ in range(2))
    for drawn, has_true_conditions in history:
        shape = with_true_conditions(drawn, one_by_one) if has_true_conditions else drawn
        with patch.object(commit, "NARROWEST_ROWS", narrowest_rows):
            assert in_columns.ask(shape.in_columns()) == one_by_one.ask(shape.one_by_one())
        assert in_columns.log == one_by_one.log
        assert durable_state(in_columns.shard) == durable_state(one_by_one.shard)
        one_by_one.now = in_columns.now = type(in_columns.now)(in_columns.now + 1)


def columns_of(count: int, metadata: str | list[str]) -> OffsetColumns:
    """Return a commit of the first partitions."""
    numbers = np.arange(count)
    return OffsetColumns(numbers, numbers + 100, np.full(count, -1), metadata)


def test_a_wide_commit_is_one_value_whatever_it_holds() -> None:
    """Not one record per partition: with equal metadata, with different metadata, expiring, or removed."""
    harness = Harness()
    count = NARROWEST_ROWS
    texts = [str(number) for number in range(count)]
    for columns, kind in ((columns_of(count, "same"), ColumnBatch), (columns_of(count, texts), OffsetRows)):
        harness.ask(CommitOffsets(G, [(T, columns)]))
        assert [type(change) for change in harness.batches[-1]] == [kind]
    harness.ask(CommitOffsets(G, [(T, columns_of(count, "same"))], retention_ms=1000))
    assert [type(change) for change in harness.batches[-1]] == [OffsetRows]
    removed = columns_of(count, "")._replace(offsets=np.where(np.arange(count) % 2, NOTHING, 7))
    expected = ExpectedOffsets(np.arange(count), np.arange(count) + 100)
    assert harness.ask(CommitOffsets(G, [(T, removed)], expected=[expected])).is_attempted
    assert [type(change) for change in harness.batches[-1]] == [OffsetRows]
    assert [harness.offset(G, T, number) for number in range(4)] == [7, None, 7, None]


def test_offsets_that_are_not_there_and_stay_away_are_not_recorded() -> None:
    """A removal where none is expected writes no tombstones and creates no group."""
    harness = Harness()
    nothing = columns_of(20, "")._replace(offsets=np.full(20, NOTHING))
    expected = ExpectedOffsets(np.arange(20), np.full(20, NOTHING))
    result = harness.ask(CommitOffsets(G, [(T, nothing)], expected=[expected]))
    assert result == CommitResult(ErrorCode.NONE)
    assert (harness.log, list(harness.shard.offsets.group_ids())) == ([], [])


def test_a_commit_with_texts_of_its_own_is_repeated_with_them() -> None:
    """Other offsets, the same metadata."""
    harness = Harness()
    count = NARROWEST_ROWS
    columns = columns_of(count, [f"of {number}" for number in range(count)])
    command = CommitOffsets(G, [(T, columns)])
    harness.ask(command)
    harness.ask(Commits([shape_of(command)] * 2, [columns.offsets + 5, columns.offsets + 6]))
    found = harness.ask(FetchOffsets(G, [(T, range(count))]))
    assert [(offset, metadata) for _, _, offset, _, metadata in each_fetched(found)] == [
        (number + 106, f"of {number}") for number in range(count)
    ]

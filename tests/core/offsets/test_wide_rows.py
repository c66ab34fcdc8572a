"""Wide commits: a table has the same contents after columns as after single records."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columns import column_batch

from headgate.core.offsets import table
from headgate.core.offsets.table import OffsetTable
from headgate.core.offsets.wide_rows import NARROWEST_WIDE
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import ColumnBatch, OffsetCommit

GROUPS = [GroupId("g1"), GroupId("g2")]
TOPIC = TopicName("t")
WIDTHS = [
    list(range(NARROWEST_WIDE + 4)),
    list(range(NARROWEST_WIDE + 3, -1, -1)),
    [1, 2, 3],
    [5, 5, *range(20, 30), 5],
    [2**31 - 1, -1, 262_144, *range(20)],
]


def wide(group: GroupId, partitions: list[int], offset: int, metadata: str) -> ColumnBatch:
    numbers = np.array(partitions, np.int64)
    offsets = offset + np.arange(len(partitions), dtype=np.int64)
    return column_batch(group, TOPIC, numbers, offsets, offsets % 5, metadata, Millis(1000 + offset))


steps = st.one_of(
    st.tuples(
        st.just("wide"),
        st.sampled_from(GROUPS),
        st.sampled_from(WIDTHS),
        st.integers(0, 99),
        st.sampled_from(["", "", "m"]),
    ),
    st.tuples(
        st.just("put"),
        st.sampled_from(GROUPS),
        st.integers(0, 30),
        st.integers(0, 99),
        st.sampled_from(["", "m"]),
    ),
    st.tuples(st.just("remove"), st.sampled_from(GROUPS), st.integers(0, 30)),
    st.tuples(st.just("forget"), st.sampled_from(GROUPS)),
    st.tuples(st.just("reclaim")),
)


@given(st.lists(steps, max_size=30))
@settings(deadline=None)
def test_columns_and_single_records_make_the_same_table(script: list[tuple[Any, ...]]) -> None:
    """Whatever happens between two commits of the same partitions, remembered rows are right."""
    with patch.object(table, "_ROWS_LEFT_BEHIND", 1):
        by_columns, one_by_one = OffsetTable(), OffsetTable()
    for step in script:
        match step:
            case ("wide", group, partitions, offset, metadata):
                commits = wide(group, partitions, offset, metadata)
                by_columns.put_columns(commits)
                for commit in commits.each():
                    one_by_one.put(commit)
            case ("put", group, partition, offset, metadata):
                commit = OffsetCommit(group, TOPIC, partition, offset, 0, metadata, Millis(5))
                by_columns.put(commit)
                one_by_one.put(commit)
            case ("remove", group, partition):
                assert by_columns.remove(group, TOPIC, partition) == one_by_one.remove(
                    group, TOPIC, partition
                )
            case ("forget", group):
                by_columns.forget_group(group)
                one_by_one.forget_group(group)
            case ("reclaim",):
                by_columns.reclaim()
                one_by_one.reclaim()
        assert len(by_columns) == len(one_by_one)
        assert by_columns.group_count == one_by_one.group_count
        for group_id in GROUPS:
            assert sorted(by_columns.offsets_of(group_id)) == sorted(one_by_one.offsets_of(group_id))
            assert by_columns.has_group(group_id) == one_by_one.has_group(group_id)


def test_metadata_of_others_does_not_hide_in_columns() -> None:
    """A wide commit removes the metadata of its own partitions, and keeps that of all others."""
    table = OffsetTable()
    group, other = GROUPS
    indexes = list(range(20))
    for offset in range(3):
        table.put_columns(wide(group, indexes, offset, ""))
    table.put(OffsetCommit(other, TOPIC, 3, 1, -1, "others", Millis(1)))
    table.put(OffsetCommit(group, TOPIC, 5, 1, -1, "own", Millis(1)))
    assert table.get_columns(group, TOPIC, np.array(indexes)) is None, "one has metadata"
    table.put_columns(wide(group, indexes, 7, ""))
    mine, others = table.get(group, TOPIC, 5), table.get(other, TOPIC, 3)
    assert mine is not None
    assert (mine.offset, mine.metadata) == (12, "")
    assert others is not None
    assert others.metadata == "others"
    columns = table.get_columns(group, TOPIC, np.array(indexes))
    assert columns is not None
    assert columns[1].tolist() == [7 + one for one in indexes]

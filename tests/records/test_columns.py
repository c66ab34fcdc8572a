"""Columns of committed offsets encode to the same bytes as their single records."""

from __future__ import annotations

from collections import deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.columns import column_batch

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.log.batch import Record, encode_batch, iterate_records
from headgate.log.builder import BatchBuilder, RecordBlock
from headgate.records import ColumnBatch, OffsetCommit, encode
from headgate.records.model import NO_EXPIRY
from headgate.records.offset_blocks import blocks_of
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows

names = st.text(st.characters(codec="utf-8"), max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def columns(draw: st.DrawFn, most: int = 40) -> ColumnBatch:
    rows = draw(st.lists(st.tuples(int32, int64, int32), min_size=1, max_size=most))
    partitions, offsets, epochs = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return column_batch(
        GroupId(draw(names)),
        TopicName(draw(names)),
        partitions,
        offsets,
        epochs,
        draw(names),
        Millis(draw(int64)),
    )


@given(columns())
def test_rows_equal_the_bytes_of_single_records(commits: ColumnBatch) -> None:
    """Each row of the encoded columns equals the encoded record."""
    keys, values = commits.shape.encode(commits.offsets, commits.commit_timestamp)
    rows = [(key.tobytes(), value.tobytes()) for key, value in zip(keys, values, strict=True)]
    assert rows == [encode(record) for record in commits.each()]
    assert len(commits) == len(rows)


@given(columns(), st.data())
def test_blocks_are_the_bytes_of_single_records(commits: ColumnBatch, data: st.DataObject) -> None:
    """Each record is in one block, in its place, as encoding it alone gives it; a batch has them in order."""
    count = len(commits)
    texts = [data.draw(st.sampled_from(["", "m", "ä", "note"]) | names) for _ in range(count)]
    is_gone = [data.draw(st.booleans()) for _ in range(count)]
    rows = OffsetRows(
        [key_prefix(commits.shape.group_id, commits.shape.topic)],
        np.zeros(count, np.int64),
        commits.shape.partitions,
        commits.offsets,
        commits.shape.leader_epochs.astype(np.int32),
        np.full(count, commits.commit_timestamp),
        np.array(is_gone),
        {row: text for row, text in enumerate(texts) if text},
        Millis(data.draw(st.just(NO_EXPIRY) | int64)),
    )
    single = [encode(record) for record in rows.each()]
    blocks = list(blocks_of(rows))
    found = {
        place: (key.tobytes(), None if values is None else values[index].tobytes())
        for places, keys, values in blocks
        for index, (place, key) in enumerate(zip(places.tolist(), keys, strict=True))
    }
    assert [found[place] for place in range(count)] == single
    builder = BatchBuilder(5)
    builder.add_blocks([RecordBlock(*block) for block in blocks])
    assert builder.build() == encode_batch([Record(key, value, 5) for key, value in single])


@given(st.lists(columns(most=90), min_size=1, max_size=4), st.integers(0, 3))
def test_a_batch_of_columns_is_the_batch_of_its_records(blocks: list[ColumnBatch], singles: int) -> None:
    """Columns and single records in one batch are byte for byte what a loop would have written."""
    now = 1_700_000_000_000
    single = Record(b"key", b"value", now)
    builder = BatchBuilder(now)
    expected: list[Record] = []
    for block in blocks:
        for _ in range(singles):
            builder.add(single.key, single.value, 20)
            expected.append(single)
        builder.add_columns(*block.shape.encode(block.offsets, block.commit_timestamp))
        expected += [Record(*encode(record), now) for record in block.each()]
    assert builder.build() == encode_batch(expected)
    assert builder.record_count == len(expected)


def test_many_records_take_longer_offset_deltas() -> None:
    """Around 64, 8,192 and 1,048,576 records the deltas grow by a byte, as in a batch written one by one."""
    for count in (63, 64, 65, 8191, 8192, 8193, 1_048_580):
        keys = np.zeros((count, 3), np.uint8)
        values = np.arange(count, dtype=">i8").view(np.uint8).reshape(count, 8)
        builder = BatchBuilder(5)
        builder.add_columns(keys, values)
        batch = builder.build()
        if count < 10_000:
            assert batch == encode_batch([Record(bytes(3), value.tobytes(), 5) for value in values])
        (offset, record) = deque(iterate_records(batch), maxlen=1)[0]
        assert (offset, record.value) == (count - 1, values[-1].tobytes())


def test_columns_yield_single_records() -> None:
    """Each record has its own numbers and the shared fields."""
    commits = column_batch(
        GroupId("g"), TopicName("t"), np.array([1, 2]), np.array([10, 20]), np.array([-1, 7]), "m", Millis(9)
    )
    assert list(commits.each()) == [
        OffsetCommit(GroupId("g"), TopicName("t"), 1, 10, -1, "m", Millis(9)),
        OffsetCommit(GroupId("g"), TopicName("t"), 2, 20, 7, "m", Millis(9)),
    ]

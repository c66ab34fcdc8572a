"""The batches of a loop iteration: the records of its commands in order, however they are distributed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.columns import column_batch
from tests.log.support import headers_of

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.log.batch import iterate_records, place_batch
from headgate.records import (
    Change,
    ColumnBatch,
    ColumnShape,
    OffsetBatch,
    OffsetCommit,
    OffsetTombstone,
    Record,
    RecordShape,
    decode,
)
from headgate.records.columns import record_count, records_of
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows
from headgate.records.runs import run_place
from headgate.shards.group_batches import NARROWEST_TEMPLATE, TurnBatches

NOW = Millis(1_700_000_000_000)
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
groups = st.sampled_from([GroupId("g"), GroupId("other"), GroupId("ü" * 200)])
widths = st.sampled_from([2, NARROWEST_TEMPLATE, 70])


@st.composite
def single(draw: st.DrawFn) -> Record:
    group_id, topic = draw(groups), TopicName("t")
    if draw(st.booleans()):
        return OffsetTombstone(group_id, topic, draw(int32))
    metadata = draw(st.sampled_from(["", "m"]))
    expiry = draw(st.sampled_from([Millis(-1), Millis(5)]))
    return OffsetCommit(group_id, topic, draw(int32), draw(int64), -1, metadata, draw(int64), expiry)  # type: ignore[arg-type]


@st.composite
def wide(draw: st.DrawFn) -> ColumnBatch:
    width = draw(widths)
    numbers = np.random.default_rng(draw(st.integers(0, 2**32))).integers(-(2**31), 2**31, (2, width))
    return column_batch(
        draw(groups),
        TopicName("t"),
        np.arange(width),
        numbers[0] * draw(st.integers(1, 2**31)),
        numbers[1],
        draw(st.sampled_from(["", "note"])),
        draw(int64),  # type: ignore[arg-type]
    )


@st.composite
def mixed(draw: st.DrawFn) -> OffsetRows:
    """Make commits with different metadata and tombstones, of one topic or two."""
    width = draw(widths)
    numbers = np.random.default_rng(draw(st.integers(0, 2**32))).integers(-(2**31), 2**31, (3, width))
    texts = st.sampled_from(["", "m", "ä", "note", "n" * 300])
    metadata = {row: text for row in range(width) if (text := draw(texts))}
    return OffsetRows(
        [key_prefix("g", "t"), key_prefix("ü" * 200, "t")],
        np.sort(np.abs(numbers[0]) % 2),
        np.arange(width),
        numbers[1] * draw(st.integers(1, 2**31)),
        numbers[2].astype(np.int32),
        np.full(width, draw(int64)),
        numbers[0] % 3 == 0,
        metadata,
    )


STANDING = [
    RecordShape(group_id, TopicName("t"), partition, -1)
    for group_id in (GroupId("g"), GroupId("ü" * 200))
    for partition in (0, 2**31 - 1)
]


@st.composite
def standing(draw: st.DrawFn) -> OffsetBatch:
    commits = draw(st.lists(st.sampled_from(STANDING), min_size=1, max_size=80))
    offsets = draw(st.lists(int64, min_size=len(commits), max_size=len(commits)))
    return OffsetBatch(commits, offsets, draw(int64))  # type: ignore[arg-type]


commands = st.lists(
    st.one_of(
        st.lists(st.one_of(single(), wide(), mixed()), min_size=1, max_size=3),
        standing().map(lambda one: [one]),
        st.tuples(single(), standing()).map(list),
    ),
    max_size=6,
)


def read(batches: Sequence[bytearray], first_offset: int) -> list[tuple[int, Record]]:
    """Return the records of batches at consecutive offsets; check that each batch is whole."""
    found = []
    for batch in batches:
        place_batch(batch, 0, first_offset, 0)
        (header,) = headers_of(batch)
        assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW)
        for offset, record in iterate_records(batch):
            assert record.timestamp == NOW
            found.append((offset, decode(record.key or b"", record.value)))
        first_offset = header.next_offset
    return found


@given(st.lists(commands, max_size=5))
def test_turns_hold_the_records_of_their_commands(turns: list[list[list[Change]]]) -> None:
    """This holds also when wide commits are repeated and copied from an earlier batch."""
    made = TurnBatches()
    offset = 17
    for turn in turns:
        expected = [record for changes in turn for change in changes for record in records_of(change)]
        batches = made.of(turn, offset, NOW)
        found = read(batches, offset)
        assert [record for _, record in found] == expected
        assert [at for at, _ in found] == list(range(offset, offset + len(expected)))
        offset += len(expected)


def test_a_repeated_wide_commit_is_its_own_batch() -> None:
    """Later ones are copies with their own offsets and time; the records are the same."""
    made = TurnBatches()
    shape = ColumnShape(GroupId("g"), TopicName("t"), np.arange(300), np.full(300, 7), "note")
    for round_ in range(4):
        change = ColumnBatch(shape, np.arange(300) + 1000 * round_, Millis(NOW + round_))
        neighbour = OffsetTombstone(GroupId("g"), TopicName("u"), round_)
        batches = made.of([[neighbour], [change], [neighbour]], 0, NOW)
        assert len(batches) == (1 if round_ < 1 else 3)
        assert [one for _, one in read(batches, 0)] == [neighbour, *change.each(), neighbour]


def test_a_shape_that_comes_twice_in_a_turn_is_two_batches() -> None:
    """This holds also when both commits share one array of offsets."""
    made = TurnBatches()
    shapes = [
        ColumnShape(GroupId("g"), TopicName("t"), np.arange(first, first + 40), np.full(40, 3), "")
        for first in (0, 40)
    ]
    for round_ in range(6):
        for shape in shapes:
            change = ColumnBatch(shape, shape.partitions * 1000 + round_, Millis(round_))
            batches = made.of([[change], [change]], 0, NOW)
            assert [one for _, one in read(batches, 0)] == [*change.each(), *change.each()]
            assert len(batches) == 2


def test_a_commit_too_large_for_a_batch_is_a_run() -> None:
    """Its records hold their place, and no batch exceeds the limit of Kafka's clients."""
    made = TurnBatches()
    width = 30_000
    change = column_batch(
        GroupId("g"), TopicName("t"), np.arange(width), np.arange(width), np.full(width, -1), "", NOW
    )
    for _ in range(3):
        batches = made.of([[change]], 50, NOW)
        assert len(batches) > 1
        assert max(map(len, batches)) < 1 << 20
        places = [run_place(record.headers) for batch in batches for _, record in iterate_records(batch)]
        assert places == [(50, before, width) for before in range(width)]
        assert [one for _, one in read(batches, 50)] == list(change.each())
    assert record_count(change) == width


def test_a_run_holds_columns_and_single_records_in_order() -> None:
    """Wherever batches end, every record is there once, in its place, at its offset."""
    wide = [
        column_batch(
            GroupId("g"),
            TopicName(topic),
            np.arange(9000),
            np.arange(9000) * 7,
            np.zeros(9000, int),
            note,
            NOW,
        )
        for topic, note in (("t", ""), ("u", "note"))
    ]
    tombstones = [OffsetTombstone(GroupId("g"), TopicName("v"), partition) for partition in range(7000)]
    changes: list[Change] = [tombstones[0], wide[0], *tombstones[1:], wide[1]]
    batches = TurnBatches().of([changes], 1 << 33, NOW)
    total = sum(map(record_count, changes))
    placed = [run_place(record.headers) for batch in batches for _, record in iterate_records(batch)]
    assert placed == [(1 << 33, before, total) for before in range(total)]
    expected = [tombstones[0], *wide[0].each(), *tombstones[1:], *wide[1].each()]
    assert [one for _, one in read(batches, 1 << 33)] == expected
    assert max(map(len, batches)) < 1 << 20


def test_a_run_holds_records_of_any_length_in_order() -> None:
    """The run has commits with metadata of many lengths, and tombstones between them."""
    width = 30_000
    numbers = np.arange(width)
    rows = OffsetRows(
        [key_prefix("g", "t")],
        np.zeros(width, np.int64),
        numbers,
        numbers * 7,
        np.full(width, 3, np.int32),
        np.full(width, NOW),
        numbers % 5 == 2,
        {row: "m" * (row % 97) for row in range(width) if row % 97},
    )
    tombstone = OffsetTombstone(GroupId("g"), TopicName("v"), 9)
    changes: list[Change] = [tombstone, rows, tombstone]
    batches = TurnBatches().of([changes], 50, NOW)
    assert len(batches) > 1
    assert max(map(len, batches)) < 1 << 20
    placed = [run_place(record.headers) for batch in batches for _, record in iterate_records(batch)]
    assert placed == [(50, before, width + 2) for before in range(width + 2)]
    assert [one for _, one in read(batches, 50)] == [tombstone, *rows.each(), tombstone]

"""The sparse indexes: lookups, Kafka's format, and invalid files; and the checkpoint."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.log.checkpoint import Checkpoint
from headgate.log.index import OffsetIndex, TimeIndex

rising = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=30).map(sorted)


def offset_index(offsets: list[int]) -> OffsetIndex:
    """An index whose batches stand ten bytes apart."""
    index = OffsetIndex()
    for at, offset in enumerate(offsets):
        index.append(offset, 10 * (at + 1))
    return index


@given(rising, st.integers(0, 2**31 - 1))
def test_lookups_agree_with_a_linear_search(offsets: list[int], sought: int) -> None:
    """For every offset."""
    index = offset_index(offsets)
    expected = next((at for at, offset in enumerate(offsets) if offset >= sought), len(offsets))
    assert index.first_at_or_above(sought) == expected
    position = sought % 400
    below = [10 * (at + 1) for at in range(len(offsets)) if 10 * (at + 1) <= position]
    assert index.last_position_at_or_below(position) == (below[-1] if below else 0)


@given(rising)
def test_an_index_file_is_read_back(offsets: list[int]) -> None:
    """Both indexes, in Kafka's big-endian format."""
    index = offset_index(offsets)
    data = index.to_bytes()
    assert data == b"".join(struct.pack(">ii", o, 10 * (at + 1)) for at, o in enumerate(offsets))
    read = OffsetIndex.from_bytes(data, 10 * len(offsets) + 1)
    assert read is not None and (read.offsets, read.positions) == (index.offsets, index.positions)
    times = TimeIndex()
    for at, offset in enumerate(offsets):
        times.append((at << 33) + 1000 + at, offset)
    data = times.to_bytes()
    assert data == b"".join(
        struct.pack(">qi", (at << 33) + 1000 + at, offset) for at, offset in enumerate(offsets)
    )
    read_times = TimeIndex.from_bytes(data)
    assert read_times is not None
    assert (read_times.timestamps, read_times.offsets) == (times.timestamps, times.offsets)


def test_time_entries_are_made_only_where_the_time_rises() -> None:
    """Equal, smaller and absent timestamps add no entry."""
    times = TimeIndex()
    for timestamp, offset in ((-1, 0), (5, 1), (5, 2), (3, 3), (7, 4)):
        times.append(timestamp, offset)
    assert list(times.timestamps) == [5, 7] and list(times.offsets) == [1, 4]
    assert [times.start_before(timestamp) for timestamp in (0, 5, 6, 7, 8)] == [
        (0, -1),
        (0, -1),
        (1, 5),
        (1, 5),
        (4, 7),
    ]


@pytest.mark.parametrize(
    "entries",
    [[(5, 10), (5, 20)], [(5, 10), (4, 20)], [(5, 20), (6, 20)], [(-1, 10)], [(0, 0)], [(1, 10), (2, 1000)]],
)
def test_invalid_offset_entries_are_refused(entries: list[tuple[int, int]]) -> None:
    """Entries must increase, the first batch has none, and none is past the log's end."""
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert OffsetIndex.from_bytes(data, 1000) is None


@pytest.mark.parametrize("entries", [[(5, 1), (5, 2)], [(5, 2), (6, 1)], [(-1, 1)], [(1, -1)]])
def test_invalid_time_entries_are_refused(entries: list[tuple[int, int]]) -> None:
    """Timestamps and offsets must increase from zero on."""
    assert TimeIndex.from_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries)) is None


def test_entries_at_the_limits_are_valid() -> None:
    """A first offset of 0, a batch at position 1, one at the last byte of the log; time 0."""
    index = OffsetIndex.from_bytes(struct.pack(">iiii", 0, 1, 1, 999), 1000)
    assert index is not None
    found = [index.last_entry_at_or_below(position) for position in (0, 1, 2, 998, 999)]
    assert found == [(0, -1), (1, 0), (1, 0), (1, 0), (999, 1)]
    index.truncate(999)
    assert (list(index.offsets), list(index.positions)) == ([0], [1])
    index.truncate(1)
    assert (list(index.offsets), list(index.positions)) == ([], [])
    assert OffsetIndex.from_bytes(b"", 0) is not None
    times = TimeIndex.from_bytes(struct.pack(">qi", 0, 0))
    assert times is not None
    assert (times.start_before(0), times.start_before(1)) == ((0, -1), (0, 0))
    times.append(0, 5)
    times.append(1, 6)
    assert (list(times.timestamps), list(times.offsets), len(times)) == ([0, 1], [0, 6], 2)
    zero = TimeIndex()
    zero.append(0, 3)
    assert list(zero.timestamps) == [0]


def test_a_time_index_gives_the_entry_before_an_offset() -> None:
    """The last one below it, not at it."""
    times = TimeIndex()
    for timestamp, offset in ((10, 2), (20, 5)):
        times.append(timestamp, offset)
    assert [times.last_before(at) for at in (2, 3, 5, 6)] == [(-1, 0), (10, 2), (10, 2), (20, 5)]


@given(st.binary(max_size=60))
def test_random_bytes_are_an_index_or_none(nonsense: bytes) -> None:
    """Nothing is raised; accepted bytes are increasing entries."""
    index = OffsetIndex.from_bytes(nonsense, 2**31)
    assert index is None or index.to_bytes() == nonsense
    times = TimeIndex.from_bytes(nonsense)
    assert times is None or times.to_bytes() == nonsense


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_a_checkpoint_is_read_back(start: int, point: int) -> None:
    """Both offsets, in a readable text."""
    checkpoint = Checkpoint(start, point)
    assert f"log_start_offset {start}\n" in checkpoint.to_bytes().decode()
    assert Checkpoint.from_bytes(checkpoint.to_bytes()) == checkpoint


@given(st.binary(max_size=3), st.integers(0, 200), st.integers(0, 3))
def test_a_changed_checkpoint_is_none(replacement: bytes, at: int, cut: int) -> None:
    """The checksum detects any change."""
    data = Checkpoint(123456, 789).to_bytes()
    changed = data[:at] + replacement + data[at + cut :]
    if changed != data:
        assert Checkpoint.from_bytes(changed) is None

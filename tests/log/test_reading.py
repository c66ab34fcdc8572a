"""Lookups by offset, and reads of whole batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.log.support import DIRECTORY, Place, append, contents, filled, first_at, names, newest, sync

from headgate.log.backlog import backlog_of
from headgate.log.batch import CorruptBatch, read_header
from headgate.log.filesystem import MemoryFileSystem
from headgate.log.log import Log, LogSettings, OffsetOutOfRange
from headgate.log.segment import Segment
from headgate.log.swap import save_compacted_to


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("interval", [0, 200, 4096])
def test_every_offset_is_found(files: MemoryFileSystem, is_reopened: bool, interval: int) -> None:
    """A read at any offset begins with the batch that has it, at the tail and by the index."""
    place = Place(files, settings=LogSettings(segment_bytes=1000, index_interval_bytes=interval))
    log = place.open()
    for count in (1, 3, 2) * 12:
        append(log, count)
    if is_reopened:
        log.close()
        log = place.open(clean=True)
    for offset in range(log.log_end_offset):
        header = read_header(log.read(offset, 1))
        assert header.base_offset <= offset < header.next_offset


def test_consecutive_reads_return_all_batches(place: Place) -> None:
    """Each batch once, within the limit of each read."""
    log, batches = filled(place)
    got = bytearray()
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, 250)
        assert 0 < len(data) <= 250
        got += data
        offset += len(data) // len(batches[0])
    assert got == b"".join(batches)


def test_a_read_never_reaches_up_to(place: Place) -> None:
    """Batches that reach `up_to` are not returned."""
    log = place.open()
    batches = [append(log, 2) for _ in range(5)]
    assert log.read(0, 10_000, up_to=4) == b"".join(batches[:2])
    assert log.read(0, 10_000, up_to=5) == b"".join(batches[:2])
    assert log.read(4, 10_000, up_to=4) == b""
    assert log.read(6, 10_000, up_to=4) == b""
    assert log.read(0, 10_000, up_to=100) == b"".join(batches)


def test_a_large_first_batch_is_returned_with_minimum_one(place: Place) -> None:
    """Without it, nothing is returned."""
    log = place.open()
    batch = append(log, size=500)
    append(log)
    for max_bytes in (0, 5, 60, len(batch) - 1):
        assert log.read(0, max_bytes) == batch
        assert log.read(0, max_bytes, minimum_one=False) == b""
    assert log.read(0, len(batch), minimum_one=False) == batch


def test_reading_outside_the_log_is_refused(place: Place) -> None:
    """Offsets before the start or past the end are out of range; a read at the end is empty."""
    log = place.open()
    append(log, 3)
    log.delete_before(1)
    for offset in (-1, 0, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)
    assert log.read(3, 100) == b""
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(4)


def test_reads_skip_gaps_of_compaction(files: MemoryFileSystem) -> None:
    """They return the next batch, in a closed segment or after it."""
    place = Place(files)
    log, batches = filled(place, 20)
    log.close()
    kept = [0, 3, 4]
    path = DIRECTORY / f"{0:020d}.log"
    file = files.open(path)
    file.truncate(0)
    file.pwrite(b"".join(batches[at] for at in kept), 0)
    files.remove(path.with_suffix(".index"))
    files.remove(path.with_suffix(".timeindex"))
    save_compacted_to(files, DIRECTORY, int(names(place, ".log")[1][:20]))
    for is_clean in (True, False):
        log = place.open(clean=is_clean)
        assert log.log_end_offset == 20
        following = int(names(place, ".log")[1][:20])
        for offset, found in ((0, 0), (1, 3), (3, 3), (4, 4), (5, following), (following, following)):
            assert read_header(log.read(offset, 1)).base_offset == found
        assert first_at(log, 1002) == (1003, 3)
    assert not place.reported


def test_an_iteration_ends_at_the_log_end_of_its_start(place: Place) -> None:
    """Batches appended meanwhile are not included."""
    log, batches = filled(place, 10)
    iterator = log.batches(3)
    first = next(iterator)
    append(log)
    assert [first[1], *(batch for _, batch in iterator)] == batches[3:]
    assert [header.base_offset for header, _ in log.batches(2, up_to=5)] == [2, 3, 4]


def test_batches_larger_than_a_chunk_are_read_whole() -> None:
    """By an iteration, among small ones."""
    place = Place(settings=LogSettings())
    log = place.open()
    batches = [append(log, size=size) for size in (10, 3 << 20, 10, (1 << 20) - 200, 1 << 20, 10)]
    assert contents(log) == batches
    assert contents(place.open()) == batches
    assert not place.reported


def test_a_read_of_a_file_cut_by_others_raises(files: MemoryFileSystem, place: Place) -> None:
    """It is damage, not an empty result."""
    log, _ = filled(place, 5)
    files.open(DIRECTORY / f"{0:020d}.log").truncate(100)
    with pytest.raises(CorruptBatch, match="ends at"):
        log.read(0, 10_000)


def _open_files(log: Log) -> int:
    """Return how many closed segments have an open file."""
    return sum(segment._file is not None for segment in log.segments.closed)


@pytest.mark.interpreted
def test_a_reader_of_a_whole_log_leaves_few_files_and_indexes_behind(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number does not grow with the log."""
    monkeypatch.setattr("headgate.log.segments._MOST_INDEXES_KEPT", 4)
    filled(place, 200)[0].close()
    log = place.open(clean=True)
    assert len(log.segments) > 15
    for offset in range(200):
        assert log.read(offset, 1)
        assert _open_files(log) <= 1
    assert sum(segment._offset_index is not None for segment in log.segments.closed) <= 6


@pytest.mark.interpreted
@pytest.mark.parametrize("kept_bytes", [0, 1 << 30])
def test_readers_at_several_places_do_not_load_indexes_again_and_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    """As long as the indexes are small: to load one takes milliseconds."""
    monkeypatch.setattr("headgate.log.segments._INDEXED_BYTES_KEPT", kept_bytes)
    filled(place, 200)[0].close()
    log = place.open(clean=True)
    loads: list[int] = []
    read_indexes = Segment.read_indexes

    def counting(segment: Segment) -> bool:
        loads.append(segment.base_offset)
        return read_indexes(segment)

    monkeypatch.setattr(Segment, "read_indexes", counting)
    places = [segment.base_offset for segment in log.segments.closed[:6]]
    for _ in range(5):
        for offset in places:
            assert log.read(offset, 1)
    assert len(loads) == (6 if kept_bytes else 30)


def test_a_walk_and_searches_leave_no_files_of_closed_segments_open(place: Place) -> None:
    """Neither does a look at the newest records of each."""
    _, batches = filled(place, 200)
    log = place.open()
    assert contents(log) == batches
    assert first_at(log, 1100) == (1100, 100)
    assert newest(log) == (1199, 199)
    assert log.header_of(3) is not None
    assert backlog_of(log, log.log_end_offset).oldest_timestamp_ms == 1000
    log.apply_retention(0, 10**15, -1)
    assert _open_files(log) == 0


def test_a_sync_of_closed_segments_closes_their_files(place: Place) -> None:
    """In a log that relies on the page cache many may be synced together."""
    place.settings = replace(place.settings, sync_on_roll=False)
    log, _ = filled(place)
    closed = log.segments.closed
    assert any(segment.synced_bytes < segment.size for segment in closed)
    sync(log)
    assert not any(segment.synced_bytes < segment.size for segment in closed)
    assert _open_files(log) == 0

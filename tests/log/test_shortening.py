"""Shorter logs: deletion and retention at the head, truncation at the end, and removal."""

from __future__ import annotations

import time

import pytest
from tests.log.support import DATA, DIRECTORY, Place, append, contents, delete, filled, names, sync

from headgate.log.filesystem import MemoryFileSystem
from headgate.log.log import LogFailed


def test_deleting_the_head_removes_whole_segments(files: MemoryFileSystem, place: Place) -> None:
    """The rest of the segment with the new start stays on disk, invisible."""
    log, batches = filled(place)
    log.delete_before(25)
    assert log.log_start_offset == 25
    assert contents(log) == batches[25:]
    assert int(names(place, ".log")[0][:20]) <= 25
    assert int(names(place, ".log")[1][:20]) > 25
    log.delete_before(3)
    assert place.open().log_start_offset == 25


def test_retention_by_time_deletes_whole_segments(place: Place) -> None:
    """When the newest record is older than the limit, also the active one."""
    log, _ = filled(place)
    second, third = (int(name[:20]) for name in names(place, ".log")[1:3])
    newest = 1000 + second - 1
    assert log.apply_retention(newest + 50, 50, -1, up_to=40) == 0
    assert log.apply_retention(newest + 51, 50, -1, up_to=40) == 1
    assert log.log_start_offset == second
    assert log.apply_retention(10**6, 50, -1, up_to=third - 1) == 0, "it reaches the high watermark"
    assert log.apply_retention(10**6, 50, -1, up_to=40) == log.segment_count + 2
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (40, 40, 0)
    append(log)
    assert place.open().log_start_offset == 40


def test_retention_by_size_keeps_at_least_the_limit(place: Place) -> None:
    """Segments are deleted while the log without them still has the limit."""
    log, _ = filled(place)
    sync(log)
    total = log.size_bytes
    first = place.files.size(DIRECTORY / names(place, ".log")[0])
    assert log.apply_retention(0, -1, total) == 0
    assert log.apply_retention(0, -1, total - first + 1) == 0
    assert log.apply_retention(0, -1, total - first) == 1
    assert log.size_bytes == total - first


def test_retention_stops_at_the_durable_offset(place: Place) -> None:
    """In a durable log only visible records are deleted."""
    log, _ = filled(place)
    assert log.apply_retention(10**9, 1, 1) == 0
    sync(log)
    assert log.apply_retention(10**9, 1, 1) > 0


def test_records_without_timestamps_age_by_their_file(place: Place) -> None:
    """The limit of the size applies to them too."""
    log = place.open()
    for _ in range(20):
        append(log, timestamp=-1)
    sync(log)
    oldest, *others = [place.files.modified_ms(segment.path()) for segment in log.segments]
    assert abs(oldest - time.time() * 1000) < 60_000
    assert log.apply_retention(oldest + 50, 50, -1) == 0
    assert log.apply_retention(oldest - 10**9, 50, -1) == 0, "the clock was set back"
    assert log.apply_retention(max(others) + 51, 50, -1) == 1 + len(others)
    append(log, timestamp=-1)
    sync(log)
    assert log.apply_retention(10**15, -1, 0) > 0


def test_a_log_keeps_the_age_of_records_without_timestamps(place: Place) -> None:
    """Opening it does not change the age; one timestamp is used for its whole segment."""
    log = place.open()
    append(log, timestamp=-1)
    sync(log)
    (written,) = (place.files.modified_ms(segment.path()) for segment in log.segments)
    log.close()
    log = place.open(clean=True)
    assert log.apply_retention(written + 51, 50, -1) == 1
    append(log, timestamp=-1)
    append(log, timestamp=10**14)
    sync(log)
    assert log.apply_retention(10**14 + 50, 50, -1) == 0


def test_truncating_drops_whole_batches_from_an_offset_on(place: Place) -> None:
    """The batch with the offset is dropped too; new batches reuse the offsets."""
    log = place.open()
    batches = [append(log, 3) for _ in range(20)]
    sync(log)
    log.truncate(31)
    assert (log.log_end_offset, log.durable_offset) == (30, 30)
    assert contents(log) == batches[:10]
    added = append(log, 2)
    assert contents(log) == [*batches[:10], added]
    sync(log)
    assert contents(place.open()) == [*batches[:10], added]
    log.truncate(100)
    assert log.log_end_offset == 32


def test_a_deleted_log_refuses_appends(files: MemoryFileSystem, place: Place) -> None:
    """It does not create its directory again."""
    log, _ = filled(place)
    delete(log)
    assert files.listdir(DATA) == []
    with pytest.raises(LogFailed, match="deleted"):
        append(log)
    with pytest.raises(LogFailed, match="deleted"):
        log.recover()
    assert contents(log) == []

"""Durable batches were synced, whoever syncs, in whatever order, whatever rolls meanwhile."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.log.support import DIRECTORY, Place, append, contents, delete, filled, names, newest, sync

from headgate.log.filesystem import Fault, MemoryFileSystem, OsFileSystem
from headgate.log.log import Log, LogFailed, LogSettings


def test_nothing_is_durable_before_its_sync_is_completed(place: Place) -> None:
    """The durable offset moves to the log end at the start of the sync."""
    log = place.open()
    append(log)
    request = log.begin_sync()
    append(log)
    assert log.durable_offset == 0 and log.needs_sync
    request.run()
    assert log.durable_offset == 0
    log.complete_sync(request)
    assert log.durable_offset == 1 and log.needs_sync
    sync(log)
    assert log.durable_offset == 2 and not log.needs_sync


def test_a_roll_during_a_sync_is_covered_by_the_next_one(place: Place) -> None:
    """With the names of new files."""
    assert isinstance(place.files, MemoryFileSystem)
    log = place.open()
    batches = [append(log) for _ in range(5)]
    request = log.begin_sync()
    batches += [append(log) for _ in range(30)]
    request.run()
    log.complete_sync(request)
    assert log.durable_offset == 5
    second = log.begin_sync()
    second.run()
    append(log)
    log.complete_sync(second)
    assert log.durable_offset == 35
    place.files.crash()
    assert contents(place.open()) == batches


def test_a_roll_does_not_hide_a_sync_that_failed(place: Place) -> None:
    """The roll's own sync succeeds after the failed one; the lost bytes are written again."""
    assert isinstance(place.files, MemoryFileSystem)
    log = place.open()
    append(log)
    sync(log)
    batches = [append(log) for _ in range(5)]
    request = log.begin_sync()
    place.files.inject(Fault(errno.EIO, "datasync"))
    with suppress(OSError):
        request.run()
    for _ in range(10):
        append(log)  # and rolls
    assert log.segment_count > 1
    with pytest.raises(OSError):
        log.complete_sync(request)
    log.recover()
    place.files.crash()
    assert contents(place.open())[1:6] == batches


def test_syncs_may_overlap_and_end_in_any_order(place: Place) -> None:
    """Each covers what it began with; the durable offset never decreases."""
    log = place.open()
    append(log)
    first = log.begin_sync()
    append(log)
    second = log.begin_sync()
    for request in (second, first):
        request.run()
    log.complete_sync(second)
    assert log.durable_offset == 2
    log.complete_sync(first)
    assert log.durable_offset == 2


def test_a_sync_runs_in_another_thread_while_files_close(tmp_path: Path) -> None:
    """Closing or deleting a log does not close the files of a running sync."""
    place = Place(OsFileSystem(), tmp_path / "t-0")
    log, _ = filled(place)
    request = log.begin_sync()
    log.close_files()
    thread = threading.Thread(target=request.run)
    thread.start()
    thread.join(timeout=10)
    log.complete_sync(request)
    assert log.durable_offset == 40
    append(log)
    request = log.begin_sync()
    delete(log)
    with suppress(FileNotFoundError):
        request.run()
    with pytest.raises(LogFailed):
        log.complete_sync(request)
    assert not list(tmp_path.iterdir())


def test_without_sync_on_roll_closed_segments_wait_for_a_sync(files: MemoryFileSystem) -> None:
    """The log rolls without a sync and reports that one is due."""
    place = Place(files, settings=LogSettings(segment_bytes=300, sync_on_roll=False))
    files.inject(Fault(errno.EIO, "datasync", times=None))
    log, _ = filled(place, 10)
    files.heal()
    assert log.has_unsynced_closed_segments
    sync(log)
    assert not log.has_unsynced_closed_segments


def test_recovery_starts_at_the_recovery_point(files: MemoryFileSystem) -> None:
    """Closed, synced segments are not read again."""
    place = Place(files)
    log, _ = filled(place)
    sync(log)
    files.open(DIRECTORY / f"{0:020d}.log").pwrite(b"\xff", 70)
    assert place.open().log_end_offset == 40, "the first segment was scanned although it was durable"
    for name in ("headgate.checkpoint", "headgate.synced"):
        files.remove(DIRECTORY / name)
    assert place.open().log_end_offset == 0
    assert place.reported[0].dropped_segments > 0


def test_a_sync_from_before_a_truncation_is_refused(place: Place) -> None:
    """It neither fails the log nor makes anything durable."""
    log = place.open()
    append(log, 3)
    request = log.begin_sync()
    log.truncate(0)
    append(log)
    request.error = OSError(errno.EIO, "late")
    with pytest.raises(LogFailed, match="not what it was"):
        log.complete_sync(request)
    assert log.failure is None
    assert log.durable_offset == 0


def test_a_log_that_was_only_read_is_closed_without_a_change(place: Place) -> None:
    """After a clean stop all is on the disk: thousands of idle logs close at once. What looks at a log and
    finds nothing to do, such as a sync or retention, is no change either.
    """
    assert isinstance(place.files, MemoryFileSystem)
    log, batches = filled(place)
    log.close()
    log = place.open(clean=True)
    before = place.files.operations
    assert contents(log) == batches
    assert newest(log) is not None
    sync(log)
    log.delete_before(0)
    assert not log.apply_retention(10_000, -1, -1)
    log.truncate(log.log_end_offset)
    log.close()
    assert place.files.operations == before
    place.files.crash()
    assert contents(place.open(clean=True)) == batches
    assert not place.reported


def appended(log: Log) -> None:
    append(log)


def shortened(log: Log) -> None:
    log.truncate(25)


def expired(log: Log) -> None:
    assert log.apply_retention(10_000, -1, 2500)


def emptied(log: Log) -> None:
    assert log.apply_retention(10_000, 0, -1)


def begun_later(log: Log) -> None:
    log.delete_before(17)


def failed_and_recovered(log: Log) -> None:
    append(log)
    log.fail(OSError(errno.EIO, "a sync failed"))
    log.recover()


@pytest.mark.parametrize("change", [appended, shortened, expired, emptied, begun_later, failed_and_recovered])
def test_a_log_that_was_changed_is_durable_once_closed(place: Place, change: Callable[[Log], None]) -> None:
    """The next clean opening after a power failure finds it as it was, without a scan."""
    assert isinstance(place.files, MemoryFileSystem)
    log, _ = filled(place)
    log.close()
    log = place.open(clean=True)
    change(log)
    kept = contents(log), log.log_start_offset, log.log_end_offset
    log.close()
    place.files.crash()
    again = place.open(clean=True)
    assert (contents(again), again.log_start_offset, again.log_end_offset) == kept
    assert all(segment.is_loaded_as_saved for segment in again.segments)
    assert not place.reported


def test_a_log_without_its_indexes_gets_them_again_when_it_is_closed(place: Place) -> None:
    """A start that had to scan writes them, although nothing was appended: the next one does not scan."""
    log, batches = filled(place)
    log.close()
    (*_, last) = names(place, ".index")
    place.files.remove(place.directory / last)
    log = place.open(clean=True)
    log.close()
    assert names(place, ".index")[-1] == last
    assert contents(place.open(clean=True)) == batches

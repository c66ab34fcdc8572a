"""What a log calls durable has been synced, whoever syncs, in whatever order, whatever rolls meanwhile."""

from __future__ import annotations

import errno
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.log.support import DIRECTORY, Place, append, contents, filled, sync

from headgate.log.filesystem import Fault, MemoryFileSystem, OsFileSystem
from headgate.log.log import LogFailed, LogSettings


def test_nothing_is_durable_before_its_sync_is_completed(place: Place) -> None:
    """The durable offset moves when a sync is completed, to where the log ended when that sync began."""
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


def test_a_roll_during_a_sync_leaves_no_hole(place: Place) -> None:
    """What is appended and rolled while a sync runs is covered by the next one, new files' names included."""
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
    """The sync of a roll succeeds behind one that failed unseen; what that one lost is written again."""
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
    """Two syncs under way at once each tell what they covered; durability never moves back."""
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
    """Closing or deleting a log does not take the files from a sync that is under way."""
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
    log.delete()
    with suppress(FileNotFoundError):
        request.run()
    with pytest.raises(LogFailed):
        log.complete_sync(request)
    assert not list(tmp_path.iterdir())


def test_without_sync_on_roll_closed_segments_wait_for_a_sync(files: MemoryFileSystem) -> None:
    """A log that trusts the page cache rolls without a sync and tells that one is due."""
    place = Place(files, settings=LogSettings(segment_bytes=300, sync_on_roll=False))
    files.inject(Fault(errno.EIO, "datasync", times=None))
    log, _ = filled(place, 10)
    files.heal()
    assert log.has_unsynced_closed_segments
    sync(log)
    assert not log.has_unsynced_closed_segments


def test_recovery_starts_past_what_is_known_to_be_durable(files: MemoryFileSystem) -> None:
    """Closed segments that were synced are not read again; the recovery point is the log's own."""
    place = Place(files)
    log, _ = filled(place)
    sync(log)
    files.open(DIRECTORY / f"{0:020d}.log").pwrite(b"\xff", 70)
    assert place.open().log_end_offset == 40, "the first segment was scanned although it was durable"
    files.remove(DIRECTORY / "headgate.checkpoint")
    assert place.open(recovery_point=40).log_end_offset == 40
    for name in ("headgate.checkpoint", "headgate.synced"):
        files.remove(DIRECTORY / name)
    assert place.open().log_end_offset == 0
    assert place.reported[0].dropped_segments > 0


def test_a_sync_of_what_the_log_was_before_tells_nothing(place: Place) -> None:
    """An outcome that comes after a truncation is refused; it neither fails the log nor moves durability."""
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

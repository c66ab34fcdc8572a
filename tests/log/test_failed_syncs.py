"""After a failed sync a log refuses appends, and the next process writes possibly lost bytes again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.log.support import Place, append, contents, sync

from headgate.log.filesystem import Fault, MemoryFileSystem, OsFileSystem
from headgate.log.log import Log, LogFailed, LogSettings
from headgate.log.sync_mark import SyncMark


def test_a_later_sync_does_not_repair_a_failed_one(files: MemoryFileSystem, place: Place) -> None:
    """Nothing more is durable until the log was recovered and written again."""
    log = place.open()
    batches = [append(log)]
    sync(log)
    batches.append(append(log))
    files.inject(Fault(errno.EIO, "datasync"))
    with pytest.raises(OSError, match="Input/output"):
        sync(log)
    with pytest.raises(LogFailed):
        append(log)
    with pytest.raises(LogFailed):
        sync(log)
    assert log.durable_offset == 1, "the pages that failed are clean: a second sync did not write them"
    assert contents(log) == batches
    log.recover()
    assert log.durable_offset == 2
    files.crash()
    assert contents(place.open()) == batches


@pytest.mark.parametrize("disk", ["works again", "fails to the end"])
def test_the_next_process_writes_again_after_a_failed_sync(
    files: MemoryFileSystem, place: Place, disk: str
) -> None:
    """It need not know of the failure: bytes not known to be synced are written again."""
    log = place.open()
    batches = [append(log)]
    sync(log)
    batches.append(append(log))
    files.inject(Fault(errno.EIO, "datasync"))
    if disk == "fails to the end":
        files.inject(Fault(errno.EIO, times=None))
    with pytest.raises(OSError, match="Input/output"):
        sync(log)
    files.kill()
    files.heal()
    assert place.open().durable_offset == 2
    files.crash()
    assert contents(place.open()) == batches


def test_the_next_process_writes_little_again(
    files: MemoryFileSystem, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill it writes what was appended since the mark, not the whole segment."""
    monkeypatch.setattr("headgate.log.durability.SYNC_MARK_EVERY_BYTES", 1000)
    place.settings = LogSettings()
    log = place.open()
    for _ in range(100):
        append(log)
        sync(log)
    files.kill()
    before = files.written_bytes
    log = place.open()
    assert files.written_bytes - before < 2000 < log.size_bytes
    assert log.durable_offset == 100


def test_truncation_invalidates_the_mark(files: MemoryFileSystem, place: Place) -> None:
    """Bytes that replace a synced tail are written again."""
    log = place.open()
    batches = [append(log, size=100) for _ in range(3)]
    log.close()
    log = place.open(clean=True)
    log.truncate(1)
    batches[1:] = [append(log, size=90) for _ in range(2)]
    files.inject(Fault(errno.EIO, "datasync"))
    with pytest.raises(OSError, match="Input/output"):
        sync(log)
    files.kill()
    assert place.open().durable_offset == 3
    files.crash()
    assert contents(place.open()) == batches


def test_a_damaged_mark_is_ignored() -> None:
    """With any wrong byte."""
    data = SyncMark(1200, 345).to_bytes()
    assert SyncMark.from_bytes(data) == SyncMark(1200, 345)
    assert len(data) == len(SyncMark(0, 0).to_bytes())
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        assert SyncMark.from_bytes(bytes(broken)) is None


def test_the_synced_bytes_of_each_segment_by_the_mark() -> None:
    """All bytes of earlier segments, none of later ones, and at most the file's size."""
    mark = SyncMark(1200, 345)
    assert [mark.bytes_of(base, 400) for base in (0, 1199, 1200, 1201)] == [400, 400, 345, 0]
    assert [mark.bytes_of(1200, size) for size in (344, 345, 346)] == [344, 345, 345]
    assert SyncMark().bytes_of(0, 400) == 0


def test_a_failed_sync_learnt_elsewhere_stops_the_log(place: Place) -> None:
    """`fail` does the same as completing a failed sync, and releases the files."""
    log = place.open()
    append(log)
    request = log.begin_sync()
    request.run()
    log.fail(OSError(errno.EIO, "told"))
    with pytest.raises(LogFailed, match="told"):
        append(log)
    log.recover()
    with pytest.raises(LogFailed):
        log.complete_sync(request)
    append(log)


def test_closing_a_failed_log_raises(files: MemoryFileSystem, place: Place) -> None:
    """So the stop is not marked as clean."""
    log = place.open()
    append(log)
    log.fail(OSError(errno.EIO, "told"))
    with pytest.raises(LogFailed):
        log.close()


def test_a_log_is_given_up_although_a_file_closes_with_an_error(tmp_path: Path) -> None:
    """Otherwise the directory of a deleted topic would be left, and be that of the next topic of its name."""
    log = Log.open(OsFileSystem(), tmp_path / "t-0", LogSettings(), clean=True)
    append(log)
    active = log.segments.active
    assert active is not None
    descriptor = active.file().descriptor
    assert descriptor is not None
    os.close(descriptor)
    log.give_up()
    assert log.segment_count == 0
    with pytest.raises(LogFailed):
        append(log)


def test_a_file_that_closes_with_an_error_fails_the_log(tmp_path: Path) -> None:
    """Unsynced bytes may be lost, and the error is reported only once: they are written again."""
    log = Log.open(OsFileSystem(), tmp_path / "t-0", LogSettings(), clean=True)
    batches = [append(log)]
    sync(log)
    batches.append(append(log))
    active = log.segments.active
    assert active is not None
    descriptor = active.file().descriptor
    assert descriptor is not None
    os.close(descriptor)
    log.close_files()
    assert log.failure is not None and log.failure.errno == errno.EBADF
    with pytest.raises(LogFailed):
        append(log)
    assert contents(log) == batches, "it is read through another descriptor"
    log.recover()
    assert log.durable_offset == 2
    append(log)
    log.close()

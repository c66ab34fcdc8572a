"""Opening a log that was not closed, or whose files were changed."""

from __future__ import annotations

import errno

import pytest
from tests.log.support import DATA, DIRECTORY, Place, append, batch_at, contents, filled, sync

from headgate.log.damage import LogDamaged, RecordsMissing
from headgate.log.filesystem import Fault, MemoryFileSystem, read_file
from headgate.log.log import LogSettings


def test_the_active_segment_has_no_gaps(files: MemoryFileSystem) -> None:
    """A jump of offsets in the last segment ends the log: it cannot have been written so."""
    place = Place(files, settings=LogSettings())
    log = place.open()
    append(log)
    log.close()
    files.open(DIRECTORY / f"{0:020d}.log").pwrite(batch_at(5), log.size_bytes)
    assert place.open().log_end_offset == 1
    assert "offset 5" in place.reported[0].reason


@pytest.mark.parametrize("which", ["first", "middle"])
@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_a_log_that_lacks_a_segment_does_not_open(
    files: MemoryFileSystem, place: Place, which: str, ending: str
) -> None:
    """Nothing is changed, the error has the missing offsets, and with the segment restored all is readable
    again.
    """
    log = place.open()
    for _ in range(40):
        append(log)
        sync(log)
    batches = contents(log)
    bases = [segment.base_offset for segment in log.segments]
    gone = bases[0 if which == "first" else 2]
    following = bases[bases.index(gone) + 1]
    if ending == "closed":
        log.close()
    files.kill()
    path = DIRECTORY / f"{gone:020d}.log"
    files.rename(path, DATA / "aside")
    before = files.operations
    with pytest.raises(RecordsMissing, match=f"records between {gone} and {following - 1}, which were"):
        place.open(clean=ending == "closed")
    assert files.operations == before, "a log that is not whole was changed"
    files.rename(DATA / "aside", path)
    assert contents(place.open(clean=ending == "closed")) == batches
    assert place.reported == []


def test_a_log_whose_durable_records_end_early_does_not_open(files: MemoryFileSystem, place: Place) -> None:
    """A closed segment cut between two batches is like a missing one."""
    log = place.open()
    for _ in range(40):
        append(log)
        sync(log)
    first, second = [segment.base_offset for segment in log.segments][:2]
    end = log.segments.closed[0].position_of(second - 1)
    log.close()
    file = files.open(DIRECTORY / f"{first:020d}.log")
    file.truncate(end)
    with pytest.raises(RecordsMissing, match=f"records between {second - 1} and {second - 1}, which were"):
        place.open(clean=True)


def test_a_log_of_unknown_origin_opens_with_its_gaps(files: MemoryFileSystem, place: Place) -> None:
    """Without our files beside it, another broker's compaction may have made them."""
    log = place.open()
    for _ in range(40):
        append(log)
    log.close()
    gone = log.segments.closed[1].base_offset
    for name in ("headgate.checkpoint", "headgate.synced", f"{gone:020d}.log"):
        files.remove(DIRECTORY / name)
    for _ in range(2):
        log = place.open(clean=True)
        assert 20 < len(contents(log)) < 40
        log.close()


def test_batches_lost_by_a_failed_sync_are_reported(files: MemoryFileSystem, place: Place) -> None:
    """And dropped at the recovery."""
    log = place.open()
    batches = [append(log)]
    sync(log)
    append(log)
    files.inject(Fault(errno.EIO, "datasync"))
    with pytest.raises(OSError, match="Input/output"):
        sync(log)
    files.drop_caches()
    log.recover()
    assert contents(log) == batches
    assert len(place.reported) == 1


def test_a_log_start_past_the_surviving_records_leaves_an_empty_log(
    files: MemoryFileSystem, place: Place
) -> None:
    """If deleted records were never durable; their offsets are not used again."""
    log = place.open()
    for _ in range(3):
        append(log)
    log.delete_before(2)
    files.crash()
    log = place.open()
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert contents(log) == []
    batch = append(log)
    sync(log)
    files.crash()
    assert contents(place.open()) == [batch]


def test_foreign_files_in_the_directory_are_not_changed(files: MemoryFileSystem, place: Place) -> None:
    """Only segments and their leftovers belong to the log."""
    log, batches = filled(place, 5)
    log.close()
    for name in ("partition.metadata", "producers.snapshot", "notes.log", "leader-epoch-checkpoint"):
        files.open(DIRECTORY / name, create=True)
    for name in ("00000000000000000077.index", "00000000000000000000.index.tmp"):
        files.open(DIRECTORY / name, create=True)
    assert contents(place.open()) == batches
    left = files.listdir(DIRECTORY)
    assert {"partition.metadata", "producers.snapshot", "notes.log", "leader-epoch-checkpoint"} <= set(left)
    assert not {"00000000000000000077.index", "00000000000000000000.index.tmp"} & set(left)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda batch: batch[:16] + b"\x01" + batch[17:], "message format 1"),
        (lambda batch: batch[:8] + b"\0\0\0\x10" + batch[12:], "no batch is at"),
        (lambda batch: batch[:8] + b"\x7f\0\0\0" + batch[12:], "cut off"),
        (lambda batch: batch[:-1] + bytes([batch[-1] ^ 1]), "CRC is wrong"),
        (lambda batch: batch[:7] + b"\x00" + batch[8:], "offset 0"),
        (lambda batch: batch[:23] + b"\xff\xff\xff\xff" + batch[27:], "last offset delta of -1"),
    ],
)
def test_recovery_ends_the_log_at_the_first_bad_batch(
    files: MemoryFileSystem, place: Place, spoil: object, reason: str
) -> None:
    """It and all later ones are dropped; the report has the reason and the size."""
    assert callable(spoil)
    log, batches = filled(place, 8)
    size = len(batches[0])
    files.open(DIRECTORY / f"{0:020d}.log").pwrite(spoil(batches[5]), 5 * size)
    log = place.open()
    assert contents(log) == batches[:5]
    (report,) = place.reported
    assert (report.dropped_bytes, report.end_offset, report.directory) == (3 * size, 5, DIRECTORY)
    assert reason in report.reason


def test_a_process_crash_loses_no_written_batch(files: MemoryFileSystem, place: Place) -> None:
    """They are in the page cache, and become durable when the log is opened."""
    log, batches = filled(place)
    files.kill()
    log = place.open()
    assert contents(log) == batches and log.durable_offset == 40
    files.crash()
    assert contents(place.open()) == batches


def test_a_cleanly_closed_log_opens_without_a_change(files: MemoryFileSystem, place: Place) -> None:
    """Nothing is scanned, written or synced."""
    for settings in (place.settings, LogSettings(index_interval_bytes=300)):
        place = Place(files, DATA / f"t-{settings.index_interval_bytes}", settings)
        log, batches = filled(place)
        log.close()
        before = files.operations
        log = place.open(clean=True)
        assert files.operations == before
        assert contents(log) == batches and log.durable_offset == 40
        files.crash()
        assert contents(place.open(clean=True)) == batches


@pytest.mark.parametrize(("which", "what"), [(2, "follow it"), (3, "follow it"), (4, None), (None, None)])
@pytest.mark.parametrize("spoiled", [0, 17, 61])
def test_with_keeps_all_a_bad_batch_before_whole_ones_is_damage(
    files: MemoryFileSystem, which: int | None, what: str | None, spoiled: int
) -> None:
    """A crash leaves a bad batch only at the end of a log whose appends are synced one by one."""
    place = Place(files, settings=LogSettings(keeps_all=True))
    log = place.open()
    batches = [append(log) for _ in range(5)]
    files.kill()
    path = DIRECTORY / f"{0:020d}.log"
    if which is not None:
        file = files.open(path)
        at = which * len(batches[0]) + spoiled
        file.pwrite(bytes([file.pread(1, at)[0] ^ 0x81]), at)
    before = read_file(files, path)
    if what is None:
        assert contents(place.open()) == batches[:which]
        return
    with pytest.raises(LogDamaged, match=f"{what}.*headgate log mend") as raised:
        place.open()
    assert raised.value.filename == str(DIRECTORY)
    assert read_file(files, path) == before


def test_with_keeps_all_a_bad_batch_before_other_segments_is_damage(files: MemoryFileSystem) -> None:
    """Whatever their contents."""
    place = Place(files, settings=LogSettings(segment_bytes=1000, keeps_all=True))
    log, batches = filled(place, 30)
    files.kill()
    file = files.open(DIRECTORY / f"{0:020d}.log")
    file.truncate(len(batches[0]) - 1)
    files.open(DIRECTORY / f"{log.segments.closed[1].base_offset:020d}.log").truncate(0)
    with pytest.raises(LogDamaged):
        place.open()


def test_an_error_names_the_directory(files: MemoryFileSystem, place: Place) -> None:
    """There may be many logs."""
    log, _ = filled(place)
    log.close()
    files.remove(DIRECTORY / f"{log.segments.closed[1].base_offset:020d}.log")
    with pytest.raises(RecordsMissing) as raised:
        place.open(clean=True)
    assert (raised.value.filename, raised.value.errno) == (str(DIRECTORY), errno.EIO)


@pytest.mark.parametrize("with_indexes", [True, False])
def test_a_segment_that_begins_within_the_previous_one_is_removed(
    files: MemoryFileSystem, place: Place, with_indexes: bool
) -> None:
    """The previous one is complete and ends the log; appends follow it."""
    log, batches = filled(place, 8)
    log.close()
    files.remove(DIRECTORY / "headgate.synced")
    if not with_indexes:
        files.remove(DIRECTORY / f"{0:020d}.index")
    path = DIRECTORY / f"{5:020d}.log"
    files.open(path, create=True).pwrite(b"".join(batches[5:]), 0)
    log = place.open()
    assert not files.exists(path)
    assert contents(log) == batches
    assert [log.read(offset, 1) for offset in range(8)] == batches
    (report,) = place.reported
    assert (report.dropped_bytes, report.end_offset) == (sum(map(len, batches[5:])), 8)
    assert "begins at 5, the segment before it ends at 8" in report.reason
    added = append(log)
    sync(log)
    files.crash()
    assert contents(place.open()) == [*batches, added]

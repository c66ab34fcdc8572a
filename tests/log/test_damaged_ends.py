"""A log with a changed end does not open, and is not changed; no crash causes that."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from crc32c import crc32c
from tests.log.support import DIRECTORY, SMALL, Place, append, batch_at, contents, memory, sync

from headgate.log.checkpoint import CHECKPOINT_NAME
from headgate.log.damage import LogDamaged, RecordsMissing
from headgate.log.filesystem import Fault, MemoryFileSystem, read_file
from headgate.log.log import LogSettings
from headgate.log.swap import COMPACTION_NAME, save_compacted_to
from headgate.log.sync_mark import SYNC_MARK_NAME, SyncMark, load_sync_mark, save_sync_mark

ONE_SEGMENT = LogSettings()


def snapshot(files: MemoryFileSystem) -> dict[str, bytes]:
    return {name: read_file(files, DIRECTORY / name) for name in files.listdir(DIRECTORY)}


def closed(place: Place, count: int = 30) -> list[bytes]:
    """The batches of a log that was closed well."""
    log = place.open()
    batches = [append(log) for _ in range(count)]
    log.close()
    return batches


def last_segment(files: MemoryFileSystem) -> Path:
    return DIRECTORY / max(name for name in files.listdir(DIRECTORY) if name.endswith(".log"))


@pytest.mark.parametrize("settings", [SMALL, ONE_SEGMENT], ids=["many segments", "one segment"])
@pytest.mark.parametrize("ending", ["closed", "killed"])
@pytest.mark.parametrize("cut", ["between batches", "within a batch", "to nothing", "gone"])
def test_a_log_cut_at_its_end_does_not_open(settings: LogSettings, ending: str, cut: str) -> None:
    """The mark's durable offsets are missing; when the end is restored all is readable again."""
    files = memory()
    place = Place(files, settings=settings)
    batches = closed(place)
    if ending == "killed":
        files.kill()
    path = last_segment(files)
    whole = read_file(files, path)
    size = len(batches[-1])
    if cut == "gone":
        files.remove(path)
    else:
        left = {"between batches": len(whole) - size, "within a batch": len(whole) - 5, "to nothing": 0}[cut]
        files.open(path).truncate(left)
    before, changes = snapshot(files), files.operations
    is_clean = ending == "closed"
    for _ in range(2):
        with pytest.raises(
            RecordsMissing, match=r"records between \d+ and 29, which were durable, cannot be read"
        ):
            place.open(clean=is_clean)
    assert (snapshot(files), files.operations) == (before, changes)
    files.open(path, create=True).pwrite(whole, 0)
    assert contents(place.open(clean=is_clean)) == batches
    assert not place.reported


def test_an_unsynced_tail_may_be_missing(files: MemoryFileSystem) -> None:
    """A power cut loses it: the log opens with what the mark covers."""
    place = Place(files, settings=ONE_SEGMENT)
    log = place.open()
    batches = [append(log) for _ in range(3)]
    sync(log)
    log.mark()
    append(log)
    files.open(last_segment(files)).truncate(log.size_bytes - 3)
    files.kill()
    assert contents(place.open()) == batches
    assert len(place.reported) == 1


@pytest.mark.parametrize("is_doubled", [True, False])
def test_a_cleanly_closed_log_with_trailing_bytes_does_not_open(
    files: MemoryFileSystem, is_doubled: bool
) -> None:
    """Batches appended twice, or bytes that are no batch."""
    place = Place(files, settings=ONE_SEGMENT)
    batches = closed(place, 4)
    tail = b"".join(batches[2:]) if is_doubled else b"\xff" * 100
    files.open(last_segment(files)).pwrite(tail, len(b"".join(batches)))
    before = snapshot(files)
    with pytest.raises(LogDamaged, match="closed cleanly"):
        place.open(clean=True)
    assert snapshot(files) == before


def test_a_closed_segment_cut_within_a_batch_is_detected(files: MemoryFileSystem, place: Place) -> None:
    """With and without its index, which is replaced by a walk from the first batch."""
    closed(place)
    path = DIRECTORY / f"{0:020d}.log"
    files.open(path).truncate(files.size(path) - 7)
    with pytest.raises(RecordsMissing, match="which were durable, cannot be read"):
        place.open(clean=True)
    files.remove(path.with_suffix(".index"))
    with pytest.raises(RecordsMissing, match="which were durable, cannot be read"):
        place.open(clean=True)


@pytest.mark.parametrize("name", [CHECKPOINT_NAME, COMPACTION_NAME])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_with_a_damaged_small_file_does_not_open(
    files: MemoryFileSystem, place: Place, name: str, is_clean: bool
) -> None:
    """The file is replaced atomically, so no crash damages it; its contents cannot be derived."""
    log = place.open()
    for _ in range(30):
        append(log)
    sync(log)
    log.delete_before(12)
    log.close()
    save_compacted_to(files, DIRECTORY, 15)
    file = files.open(DIRECTORY / name)
    file.pwrite(bytes([file.pread(1, 30)[0] ^ 1]), 30)
    before = snapshot(files)
    with pytest.raises(LogDamaged, match=f"{name} cannot be read"):
        place.open(clean=is_clean)
    assert snapshot(files) == before


def test_a_log_whose_checkpoint_is_gone_does_not_show_deleted_records(
    files: MemoryFileSystem, place: Place
) -> None:
    """The mark has the later log start."""
    log = place.open()
    for _ in range(30):
        append(log)
    sync(log)
    log.delete_before(5)
    log.close()
    files.remove(DIRECTORY / CHECKPOINT_NAME)
    for is_clean in (True, False):
        with pytest.raises(LogDamaged, match="the log starts at 5"):
            place.open(clean=is_clean)


def test_truncation_resets_mark_and_recovery_point(files: MemoryFileSystem) -> None:
    """A batch that reaches past the offset is dropped whole: neither may cover it."""
    place = Place(files, settings=LogSettings(segment_bytes=150, index_interval_bytes=0))
    log = place.open()
    append(log, 3)
    append(log)
    sync(log)
    log.truncate(2)
    assert log.log_end_offset == 0
    log.close()
    assert place.open(clean=True).log_end_offset == 0
    assert place.open().log_end_offset == 0


def test_a_log_of_unknown_origin_that_begins_late_opens_twice(files: MemoryFileSystem, place: Place) -> None:
    """Its start is recorded at the first open: nothing is missing from then on."""
    log = place.open()
    for _ in range(30):
        append(log)
    first = log.segments.closed[1].base_offset
    log.close()
    for name in files.listdir(DIRECTORY):
        if not name.endswith(".log") or int(name[:20]) < first:
            files.remove(DIRECTORY / name)
    for _ in range(3):
        log = place.open()
        assert (log.log_start_offset, log.log_end_offset) == (first, 30)


def test_a_failed_write_of_a_mark_is_reported(files: MemoryFileSystem) -> None:
    """The former mark never claims more than before."""
    files.make_directory(DIRECTORY)
    old, new = SyncMark(0, 100, 3, 0), SyncMark(0, 200, 5, 0)
    files.inject(Fault(errno.EIO, "open", path_ends=SYNC_MARK_NAME))
    assert save_sync_mark(files, DIRECTORY, old) is False
    assert load_sync_mark(files, DIRECTORY) == SyncMark()
    assert save_sync_mark(files, DIRECTORY, old) is True
    files.inject(Fault(errno.EIO, "pwrite", path_ends=SYNC_MARK_NAME))
    assert save_sync_mark(files, DIRECTORY, new) is False
    assert load_sync_mark(files, DIRECTORY) == old
    files.inject(Fault(errno.EIO, "pwrite", path_ends=SYNC_MARK_NAME, written=70))
    assert save_sync_mark(files, DIRECTORY, new) is False
    assert load_sync_mark(files, DIRECTORY) in (SyncMark(), old)
    assert save_sync_mark(files, DIRECTORY, new) is True
    assert load_sync_mark(files, DIRECTORY) == new


def test_a_mark_of_the_first_format_is_read() -> None:
    """It has bytes but no offsets: no loss is detected by it."""
    text = b"headgate log synced 1\nsegment 00000000000000001200\nposition 00000000000000000345\n"
    assert SyncMark.from_bytes(text + f"crc32c {crc32c(text):#010x}\n".encode()) == SyncMark(1200, 345)


def test_a_segment_of_another_log_is_detected(files: MemoryFileSystem) -> None:
    """Its batches have wrong offsets at its start or end."""
    place = Place(files, settings=ONE_SEGMENT)
    closed(place, 5)
    path = last_segment(files)
    files.open(path).truncate(0)
    files.open(path).pwrite(batch_at(0) + batch_at(1, size=300), 0)
    with pytest.raises(RecordsMissing, match="records between 2 and 4, which were durable, cannot be read"):
        place.open(clean=True)

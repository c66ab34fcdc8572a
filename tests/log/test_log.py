"""What a log promises while nothing goes wrong, and when something does."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.log.support import DATA, DIRECTORY, Place, append, batch_at, contents, memory, sync

from headgate.log.batch import CorruptBatch, Record, encode_batch, place_batch, read_header
from headgate.log.filesystem import Fault, MemoryFileSystem, OsFileSystem
from headgate.log.log import Log, LogFailed, LogSettings, OffsetOutOfRange
from headgate.log.recovery import RecordsMissing
from headgate.log.swap import save_compacted_to
from headgate.log.sync_mark import SyncMark


@pytest.fixture
def files() -> MemoryFileSystem:
    """An empty data directory in memory."""
    return memory()


@pytest.fixture
def place(files: MemoryFileSystem) -> Place:
    """A place for one log of small segments."""
    return Place(files)


def names(place: Place, suffix: str) -> list[str]:
    """The sorted names of the log's files of one kind."""
    return sorted(name for name in place.files.listdir(place.directory) if name.endswith(suffix))


def filled(place: Place, count: int = 40) -> tuple[Log, list[bytes]]:
    """A log of one-record batches over several segments."""
    log = place.open()
    return log, [append(log) for _ in range(count)]


# Appending and reading.


def test_an_unwritten_log_costs_nothing_on_disk(place: Place) -> None:
    """Opening, reading, syncing and closing a log that has no batch creates nothing."""
    log = place.open()
    assert (log.log_start_offset, log.log_end_offset, log.durable_offset, log.size_bytes) == (0, 0, 0, 0)
    assert log.read(0, 1000) == b""
    assert contents(log) == []
    assert log.offset_for_timestamp(0) is None and log.max_timestamp() is None
    sync(log)
    assert log.apply_retention(10**15, 1, 1) == 0
    log.delete_before(0)
    log.truncate(0)
    assert log.recover() is None
    log.close()
    assert place.files.listdir(DATA) == []
    log.delete()
    assert isinstance(place.files, MemoryFileSystem) and place.files.operations == 2


def test_a_file_is_the_batches_one_after_the_other(place: Place) -> None:
    """The segment on disk is byte for byte what was appended, under Kafka's file name."""
    log = place.open()
    batches = [append(log, count) for count in (1, 2, 3)]
    file = place.files.open(DIRECTORY / "00000000000000000000.log")
    assert file.pread(10_000, 0) == b"".join(batches)
    assert log.log_end_offset == 6
    assert log.size_bytes == file.size()


def test_a_segment_is_left_when_the_next_batch_does_not_fit(place: Place) -> None:
    """Segments hold at most `segment_bytes` and are named by their first offset."""
    log, batches = filled(place)
    size = len(batches[0])
    per_segment = 1000 // size
    bases = range(0, 40, per_segment)
    assert names(place, ".log") == [f"{base:020d}.log" for base in bases]
    assert log.segment_count == len(bases)
    assert contents(log) == batches


def test_a_batch_larger_than_a_segment_has_one_for_itself(place: Place) -> None:
    """A batch is never split, nor refused for its size."""
    log = place.open()
    batches = [append(log), append(log, size=5000), append(log)]
    assert contents(log) == batches
    assert log.segment_count == 3


def test_a_segment_is_left_when_its_first_record_is_old() -> None:
    """`segment_ms` is counted between the batches' own timestamps."""
    place = Place(settings=LogSettings(segment_ms=100))
    log = place.open()
    for timestamp in (1000, 1100, 1101, 1150, 1202):
        append(log, timestamp=timestamp)
    assert names(place, ".log") == [f"{base:020d}.log" for base in (0, 2, 4)]


def test_a_batch_must_come_at_the_end(place: Place) -> None:
    """A batch placed anywhere but at the log's end is a bug of the caller, found before it is written."""
    log = place.open()
    append(log)
    batch = batch_at(5)
    with pytest.raises(AssertionError):
        log.append(batch, [read_header(batch)])
    assert log.log_end_offset == 1


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("interval", [0, 200, 4096])
def test_every_offset_is_found(files: MemoryFileSystem, is_reopened: bool, interval: int) -> None:
    """A read from any offset begins with the batch that holds it, at the tail and through an index."""
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


def test_reading_on_from_batch_to_batch_gives_everything(place: Place) -> None:
    """A reader that goes on where its last read ended sees every batch once, never too much at a time."""
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
    """Batches at or past `up_to`, and one that straddles it, are held back."""
    log = place.open()
    batches = [append(log, 2) for _ in range(5)]
    assert log.read(0, 10_000, up_to=4) == b"".join(batches[:2])
    assert log.read(0, 10_000, up_to=5) == b"".join(batches[:2])
    assert log.read(4, 10_000, up_to=4) == b""
    assert log.read(6, 10_000, up_to=4) == b""
    assert log.read(0, 10_000, up_to=100) == b"".join(batches)


def test_the_first_batch_comes_whole_only_when_asked(place: Place) -> None:
    """A batch larger than `max_bytes` is given whole with `minimum_one`, and not at all without."""
    log = place.open()
    batch = append(log, size=500)
    append(log)
    for max_bytes in (0, 5, 60, len(batch) - 1):
        assert log.read(0, max_bytes) == batch
        assert log.read(0, max_bytes, minimum_one=False) == b""
    assert log.read(0, len(batch), minimum_one=False) == batch


def test_reading_outside_the_log_is_refused(place: Place) -> None:
    """Offsets before the start or past the end are out of range; the end itself is empty."""
    log = place.open()
    append(log, 3)
    log.delete_before(1)
    for offset in (-1, 0, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)
    assert log.read(3, 100) == b""
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(4)


def test_gaps_left_by_compaction_are_stepped_over(files: MemoryFileSystem) -> None:
    """Where offsets are missing a read gives the next batch there is, within a closed segment or after it."""
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
        assert log.offset_for_timestamp(1002) == (1003, 3)
    assert not place.reported


@pytest.mark.parametrize("entries", [0, 1, 2])
def test_a_time_index_cut_between_entries_is_built_again(
    files: MemoryFileSystem, place: Place, entries: int
) -> None:
    """Records behind what is left of it are found by their time, and retention sees how late they are."""
    log, _ = filled(place, 40)
    timestamps = [segment.max_timestamp for segment in log.segments]
    closed = log.segments.closed[1]
    log.close()
    path = closed.path(".timeindex")
    assert files.size(path) > 12 * entries
    files.open(path).truncate(12 * entries)
    log = place.open(clean=True)
    last = closed.next_offset - 1
    assert log.offset_for_timestamp(1000 + last) == (1000 + last, last)
    assert [segment.max_timestamp for segment in log.segments] == timestamps
    assert files.size(path) > 12 * entries


def test_the_active_segment_has_no_gaps(files: MemoryFileSystem) -> None:
    """An offset that jumps in the last segment is where the log ends: it was never written so."""
    place = Place(files, settings=LogSettings())
    log = place.open()
    append(log)
    log.close()
    files.open(DIRECTORY / f"{0:020d}.log").pwrite(batch_at(5), log.size_bytes)
    assert place.open().log_end_offset == 1
    assert "offset 5" in place.reported[0].reason


def test_records_are_found_by_time(place: Place) -> None:
    """The first record at or after a time is found, in a batch and across segments, past the log start."""
    log = place.open()
    for at in range(40):
        append(log, 2, timestamp=1000 + 10 * at)
    assert log.offset_for_timestamp(0) == (1000, 0)
    assert log.offset_for_timestamp(1001) == (1001, 1)
    assert log.offset_for_timestamp(1002) == (1010, 2)
    assert log.offset_for_timestamp(1391) == (1391, 79)
    assert log.offset_for_timestamp(1392) is None
    assert log.max_timestamp() == (1391, 79)
    log.delete_before(51)
    assert log.offset_for_timestamp(0) == (1251, 51)


def test_the_largest_timestamp_need_not_be_the_last(place: Place) -> None:
    """A record from the future stays the largest until the log starts after it; without any there is none."""
    log = place.open()
    append(log, timestamp=100)
    append(log, timestamp=9000)
    for _ in range(20):
        append(log, timestamp=200)
    assert log.max_timestamp() == (9000, 1)
    assert log.offset_for_timestamp(300) == (9000, 1)
    log.delete_before(2)
    assert log.max_timestamp() == (200, 2)
    assert log.offset_for_timestamp(300) is None
    timeless = Place(memory()).open()
    append(timeless, timestamp=-1)
    assert timeless.max_timestamp() is None


def test_loading_sees_what_there_was_when_it_began(place: Place) -> None:
    """Iterating over batches goes on while the log grows, and ends where it was."""
    log, batches = filled(place, 10)
    iterator = log.batches(3)
    first = next(iterator)
    append(log)
    assert [first[1], *(batch for _, batch in iterator)] == batches[3:]
    assert [header.base_offset for header, _ in log.batches(2, up_to=5)] == [2, 3, 4]


def test_batches_larger_than_a_chunk_are_read_whole() -> None:
    """Loading copes with batches larger than what it reads at a time, among small ones."""
    place = Place(settings=LogSettings())
    log = place.open()
    batches = [append(log, size=size) for size in (10, 3 << 20, 10, (1 << 20) - 200, 1 << 20, 10)]
    assert contents(log) == batches
    assert contents(place.open()) == batches
    assert not place.reported


# Durability.


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
    files.remove(DIRECTORY / "headgate.checkpoint")
    assert place.open().log_end_offset == 0
    assert place.reported[0].dropped_segments > 0


# Failing.


def test_a_failed_write_leaves_no_trace(files: MemoryFileSystem, place: Place) -> None:
    """A full disk refuses the append, wherever it tears it; the same append works when there is room."""
    log = place.open()
    first = append(log)
    for written in range(0, len(first) + 1, 7):
        files.inject(Fault(errno.ENOSPC, "pwrite", written=written))
        with pytest.raises(OSError, match="No space") as failure:
            append(log)
        assert not isinstance(failure.value, LogFailed)
        assert files.size(DIRECTORY / f"{0:020d}.log") == len(first)
        assert contents(log) == [first]
    second = append(log)
    assert contents(log) == contents(place.open()) == [first, second]


def test_a_short_write_is_carried_on(files: MemoryFileSystem, place: Place) -> None:
    """A write that stops half-way without an error is no failure."""
    log = place.open()
    append(log)
    files.inject(Fault(None, "pwrite", written=10))
    append(log)
    assert contents(log) == [batch_at(0), batch_at(1)]


def test_a_roll_that_fails_keeps_the_old_segment(files: MemoryFileSystem, place: Place) -> None:
    """When no new file can be made the append is refused, and the next one tries again."""
    log, batches = filled(place, 10)
    files.inject(Fault(errno.ENOSPC, "open", times=None))
    with pytest.raises(OSError, match="No space"):
        append(log, size=900)
    assert contents(log) == batches
    files.heal()
    batches.append(append(log, size=900))
    assert contents(log) == contents(place.open()) == batches


def test_a_log_that_cannot_be_cut_back_takes_nothing_until_recovered(
    files: MemoryFileSystem, place: Place
) -> None:
    """With garbage past its end a log stays readable, refuses appends, and recovers when the disk does."""
    log = place.open()
    first = append(log)
    files.inject(Fault(errno.EIO, "pwrite", written=30))
    files.inject(Fault(errno.EIO, "truncate", times=None))
    with pytest.raises(OSError, match="Input/output"):
        append(log)
    for _ in range(2):
        with pytest.raises(LogFailed):
            append(log)
    assert contents(log) == [first]
    with pytest.raises(OSError, match="Input/output"):
        log.recover()
    with pytest.raises(LogFailed):
        append(log)
    files.heal()
    recovery = log.recover()
    assert recovery is not None and recovery.dropped_bytes == 30
    second = append(log)
    assert contents(log) == [first, second]


def test_a_failed_sync_is_never_made_good_by_the_next_one(files: MemoryFileSystem, place: Place) -> None:
    """After a failed sync nothing more is claimed durable until the log was read again and written anew."""
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
def test_what_a_failed_sync_left_is_written_again_by_the_next_process(
    files: MemoryFileSystem, place: Place, disk: str
) -> None:
    """Nobody has to be told of the failure: what no sync is known to have reached is not trusted."""
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
    """A kill costs what was appended since the mark was left, not the segment."""
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


def test_a_mark_says_no_more_than_is_true_of_a_shortened_log(files: MemoryFileSystem, place: Place) -> None:
    """What takes the place of a tail that was synced is written again all the same."""
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


def test_a_mark_counts_for_nothing_when_a_byte_of_it_is_wrong() -> None:
    """It is believed whole or not at all."""
    data = SyncMark(1200, 345).to_bytes()
    assert SyncMark.from_bytes(data) == SyncMark(1200, 345)
    assert len(data) == len(SyncMark(0, 0).to_bytes())
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        assert SyncMark.from_bytes(bytes(broken)) is None


@pytest.mark.parametrize("which", ["first", "middle"])
@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_a_log_that_lacks_a_segment_does_not_open(
    files: MemoryFileSystem, place: Place, which: str, ending: str
) -> None:
    """Nothing is changed, the missing offsets are named, and with the segment back all is there again."""
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
    with pytest.raises(RecordsMissing, match=f"from {gone} to {following - 1} are missing"):
        place.open(clean=ending == "closed")
    assert files.operations == before, "a log that is not whole was changed"
    files.rename(DATA / "aside", path)
    assert contents(place.open(clean=ending == "closed")) == batches
    assert place.reported == []


def test_a_log_whose_durable_records_end_early_does_not_open(files: MemoryFileSystem, place: Place) -> None:
    """A closed segment cut off between two batches is as bad as one that is gone."""
    log = place.open()
    for _ in range(40):
        append(log)
        sync(log)
    first, second = [segment.base_offset for segment in log.segments][:2]
    end = log.segments.closed[0].position_of(second - 1)
    log.close()
    file = files.open(DIRECTORY / f"{first:020d}.log")
    file.truncate(end)
    with pytest.raises(RecordsMissing, match=f"from {second - 1} to {second - 1} are missing"):
        place.open(clean=True)


def test_a_log_of_unknown_origin_opens_with_its_gaps(files: MemoryFileSystem, place: Place) -> None:
    """Without our own files beside it somebody else's compaction may have made them."""
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


def test_what_the_page_cache_lost_is_dropped_at_recovery(files: MemoryFileSystem, place: Place) -> None:
    """Batches that a failed sync threw away are found missing and reported."""
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


def test_a_failed_sync_learnt_elsewhere_stops_the_log(place: Place) -> None:
    """`fail` does what completing a failed sync does, and lets go of the files."""
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


def test_a_failed_log_does_not_close_as_if_it_were_clean(files: MemoryFileSystem, place: Place) -> None:
    """Closing a failed log raises, so nobody marks the stop as clean."""
    log = place.open()
    append(log)
    log.fail(OSError(errno.EIO, "told"))
    with pytest.raises(LogFailed):
        log.close()


# Indexes.


@pytest.mark.parametrize(
    "spoil",
    [
        lambda files, path: files.remove(path),
        lambda files, path: files.open(path).truncate(files.size(path) - 1),
        lambda files, path: files.open(path).truncate(files.size(path) * 2),
        lambda files, path: files.open(path).pwrite(b"\x7f" * 8, 0),
        lambda files, path: files.open(path).pwrite(b"\xff" * files.size(path), 0),
        lambda files, path: files.open(path).pwrite(bytes(files.size(path)), 0),
    ],
)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_spoilt_index_is_built_again(
    files: MemoryFileSystem, place: Place, spoil: object, suffix: str, which: int
) -> None:
    """Whatever happened to an index, every offset and every time is found, and no batch is dropped."""
    assert callable(spoil)
    log, batches = filled(place)
    log.close()
    spoil(files, DIRECTORY / names(place, suffix)[which])
    log = place.open(clean=True)
    for offset in range(40):
        assert log.read(offset, 1) == batches[offset]
        assert log.offset_for_timestamp(1000 + offset) == (1000 + offset, offset)
    assert not place.reported
    added = append(log)
    assert contents(log) == [*batches, added]


def test_indexes_are_kafkas(files: MemoryFileSystem) -> None:
    """Index entries are a batch's last offset and its position; time entries rise to the largest."""
    place = Place(files, settings=LogSettings(index_interval_bytes=100))
    log = place.open()
    sizes = [len(append(log, 2, timestamp=5000 - at if at == 2 else 1000 + at)) for at in range(5)]
    log.close()
    index = files.open(DIRECTORY / f"{0:020d}.index").pread(1000, 0)
    assert index == b"".join(
        (2 * at + 1).to_bytes(4, "big") + sum(sizes[:at]).to_bytes(4, "big") for at in range(1, 5)
    )
    times = files.open(DIRECTORY / f"{0:020d}.timeindex").pread(1000, 0)
    assert times == b"".join(
        timestamp.to_bytes(8, "big") + offset.to_bytes(4, "big")
        for timestamp, offset in ((1002, 3), (4999, 5))
    )


def test_a_full_disk_costs_the_indexes_not_the_log(files: MemoryFileSystem, place: Place) -> None:
    """Where there is no room for an index file the roll goes on, and reads go on finding."""
    files.inject(Fault(errno.ENOSPC, "pwrite", times=None, path_ends="index.tmp"))
    log, batches = filled(place)
    sync(log)
    log.close_files()
    assert contents(log) == batches
    assert [log.read(at, 1) for at in range(40)] == batches
    files.crash()
    assert contents(place.open()) == batches


def test_an_index_that_could_not_be_renewed_is_not_believed(files: MemoryFileSystem, place: Place) -> None:
    """The index of an earlier clean stop goes when the segment outgrew it and none can be written."""
    log, _ = filled(place, 5)
    log.close()
    log = place.open(clean=True)
    files.inject(Fault(errno.ENOSPC, "pwrite", times=None, path_ends="index.tmp"))
    for _ in range(10):
        append(log)
    sync(log)
    assert log.segment_count == 2
    files.crash()
    log = place.open()
    for offset in range(15):
        assert log.offset_for_timestamp(1000 + offset) == (1000 + offset, offset)


def test_idle_logs_hold_no_descriptor(tmp_path: Path) -> None:
    """After `close_files` no file of the log is open, and everything goes on working."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  the kernel's list, not a path of ours
    place = Place(OsFileSystem(), tmp_path / "t-0")
    log, batches = filled(place)
    sync(log)
    log.close_files()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    batches.append(append(log))
    assert contents(log) == batches
    log.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# Shortening.


def test_deleting_the_head_keeps_what_it_shares_a_segment_with(files: MemoryFileSystem, place: Place) -> None:
    """Whole segments go, the rest of the one with the new start stays on disk but out of sight."""
    log, batches = filled(place)
    log.delete_before(25)
    assert log.log_start_offset == 25
    assert contents(log) == batches[25:]
    assert int(names(place, ".log")[0][:20]) <= 25
    assert int(names(place, ".log")[1][:20]) > 25
    log.delete_before(3)
    assert place.open().log_start_offset == 25


def test_a_start_past_what_survived_leaves_an_empty_log_there(files: MemoryFileSystem, place: Place) -> None:
    """When records were deleted that were never durable, offsets go on after them and are not used twice."""
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


def test_retention_by_time_takes_whole_segments(place: Place) -> None:
    """A segment goes when its newest record is older than the limit, the active one included."""
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
    """Segments go from the front while the log without them still holds the limit."""
    log, _ = filled(place)
    sync(log)
    total = log.size_bytes
    first = place.files.size(DIRECTORY / names(place, ".log")[0])
    assert log.apply_retention(0, -1, total) == 0
    assert log.apply_retention(0, -1, total - first + 1) == 0
    assert log.apply_retention(0, -1, total - first) == 1
    assert log.size_bytes == total - first


def test_retention_stops_at_what_is_durable(place: Place) -> None:
    """In a durable log nothing is deleted that readers have not been shown yet."""
    log, _ = filled(place)
    assert log.apply_retention(10**9, 1, 1) == 0
    sync(log)
    assert log.apply_retention(10**9, 1, 1) > 0


def test_records_without_timestamps_do_not_age(place: Place) -> None:
    """A segment without timestamps is kept by time and let go by size."""
    log = place.open()
    for _ in range(20):
        append(log, timestamp=-1)
    sync(log)
    assert log.apply_retention(10**15, 1, -1) == 0
    assert log.apply_retention(10**15, -1, 0) > 0


def test_truncating_drops_whole_batches_from_an_offset_on(place: Place) -> None:
    """The batch that holds the offset goes as well; new batches take the offsets again."""
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


def test_a_deleted_log_takes_nothing_more(files: MemoryFileSystem, place: Place) -> None:
    """Deleting removes the directory; the object refuses appends instead of making it again."""
    log, _ = filled(place)
    log.delete()
    assert files.listdir(DATA) == []
    with pytest.raises(LogFailed, match="deleted"):
        append(log)
    with pytest.raises(LogFailed, match="deleted"):
        log.recover()
    assert contents(log) == []


def test_foreign_files_in_the_directory_are_left_alone(files: MemoryFileSystem, place: Place) -> None:
    """Only segments and their leftovers are the log's; what others keep beside them stays."""
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
        (lambda batch: batch[:8] + b"\0\0\0\x10" + batch[12:], "no batch stands"),
        (lambda batch: batch[:8] + b"\x7f\0\0\0" + batch[12:], "cut off"),
        (lambda batch: batch[:-1] + bytes([batch[-1] ^ 1]), "CRC is wrong"),
        (lambda batch: batch[:7] + b"\x00" + batch[8:], "offset 0"),
        (lambda batch: batch[:23] + b"\xff\xff\xff\xff" + batch[27:], "last offset delta of -1"),
    ],
)
def test_recovery_ends_the_log_at_the_first_bad_batch(
    files: MemoryFileSystem, place: Place, spoil: object, reason: str
) -> None:
    """Whatever is wrong with a batch, it and all after it go, and the report says what and how much."""
    assert callable(spoil)
    log, batches = filled(place, 8)
    size = len(batches[0])
    files.open(DIRECTORY / f"{0:020d}.log").pwrite(spoil(batches[5]), 5 * size)
    log = place.open()
    assert contents(log) == batches[:5]
    (report,) = place.reported
    assert (report.dropped_bytes, report.end_offset, report.directory) == (3 * size, 5, DIRECTORY)
    assert reason in report.reason


def test_a_read_of_a_file_that_was_cut_behind_our_back_says_so(files: MemoryFileSystem, place: Place) -> None:
    """A file that ends before the log does is damage, not an empty answer."""
    log, _ = filled(place, 5)
    files.open(DIRECTORY / f"{0:020d}.log").truncate(100)
    with pytest.raises(CorruptBatch, match="ends at"):
        log.read(0, 10_000)


def test_a_process_crash_keeps_what_was_written(files: MemoryFileSystem, place: Place) -> None:
    """Batches in the page cache survive the process, and are durable only because opening synced them."""
    log, batches = filled(place)
    files.kill()
    log = place.open()
    assert contents(log) == batches and log.durable_offset == 40
    files.crash()
    assert contents(place.open()) == batches


def test_several_batches_are_one_write(files: MemoryFileSystem, place: Place) -> None:
    """However many batches an append has, it costs one change of the file."""
    log = place.open()
    append(log)
    batches = [batch_at(1), batch_at(2), batch_at(3)]
    before = files.operations
    log.append(b"".join(batches), [read_header(batch) for batch in batches])
    assert files.operations == before + 1
    assert contents(log)[1:] == batches


def test_any_buffer_may_be_appended(place: Place) -> None:
    """Bytes, a bytearray placed in itself, and a view of a request are all written as they are."""
    log = place.open()
    buffer = encode_batch([Record(b"k", b"v", 1)])
    place_batch(buffer, 0, 0, 3)
    log.append(buffer, [read_header(buffer)])
    frame = b"request" + batch_at(1)
    view = memoryview(frame)[7:]
    log.append(view, [read_header(view)])
    assert contents(log) == [bytes(buffer), bytes(view)]

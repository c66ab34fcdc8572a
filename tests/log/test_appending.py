"""Appends: batches in segments, complete or not at all, also when a write fails."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest
from tests.log.support import (
    DATA,
    DIRECTORY,
    Place,
    append,
    batch_at,
    contents,
    filled,
    first_at,
    names,
    newest,
    sync,
)

from headgate.log.batch import Record, encode_batch, place_batch, read_header
from headgate.log.filesystem import Fault, MemoryFileSystem, OsFileSystem
from headgate.log.log import LogFailed, LogSettings


def test_an_unwritten_log_has_no_files(place: Place) -> None:
    """Opening, reading, syncing and closing a log without batches creates nothing."""
    log = place.open()
    assert (log.log_start_offset, log.log_end_offset, log.durable_offset, log.size_bytes) == (0, 0, 0, 0)
    assert log.read(0, 1000) == b""
    assert contents(log) == []
    assert first_at(log, 0) is None and newest(log) is None
    sync(log)
    assert log.apply_retention(10**15, 1, 1) == 0
    log.delete_before(0)
    log.truncate(0)
    assert log.recover() is None
    log.close()
    assert place.files.listdir(DATA) == []
    assert isinstance(place.files, MemoryFileSystem) and place.files.operations == 2


def test_a_segment_file_is_the_appended_batches(place: Place) -> None:
    """Byte for byte, under Kafka's file name."""
    log = place.open()
    batches = [append(log, count) for count in (1, 2, 3)]
    file = place.files.open(DIRECTORY / "00000000000000000000.log")
    assert file.pread(10_000, 0) == b"".join(batches)
    assert log.log_end_offset == 6
    assert log.size_bytes == file.size()


def test_a_segment_is_closed_when_the_next_batch_does_not_fit(place: Place) -> None:
    """Segments have at most `segment_bytes` and are named by their first offset."""
    log, batches = filled(place)
    size = len(batches[0])
    per_segment = 1000 // size
    bases = range(0, 40, per_segment)
    assert names(place, ".log") == [f"{base:020d}.log" for base in bases]
    assert log.segment_count == len(bases)
    assert contents(log) == batches


def test_a_batch_larger_than_a_segment_gets_its_own(place: Place) -> None:
    """A batch is neither split nor refused for its size."""
    log = place.open()
    batches = [append(log), append(log, size=5000), append(log)]
    assert contents(log) == batches
    assert log.segment_count == 3


def test_a_segment_is_closed_when_its_first_record_is_old() -> None:
    """`segment_ms` is compared with the timestamps of batches."""
    place = Place(settings=LogSettings(segment_ms=100))
    log = place.open()
    for timestamp in (1000, 1100, 1101, 1150, 1202):
        append(log, timestamp=timestamp)
    assert names(place, ".log") == [f"{base:020d}.log" for base in (0, 2, 4)]


def _segment_lengths(directory: str, jitter_ms: int) -> list[int]:
    settings = LogSettings(segment_ms=100, segment_jitter_ms=jitter_ms)
    place = Place(directory=DATA / directory, settings=settings)
    log = place.open()
    for timestamp in range(1000, 6000):
        append(log, timestamp=timestamp)
    bases = [int(name[:20]) for name in names(place, ".log")]
    return [end - base for base, end in pairwise(bases)]


@pytest.mark.parametrize(("jitter_ms", "shortest"), [(30, 71), (100, 1), (10_000, 1)])
def test_jitter_closes_segments_earlier_and_at_different_times(jitter_ms: int, shortest: int) -> None:
    """Each segment and partition has its own constant reduction, less than the jitter."""
    lengths = _segment_lengths("flights-0", jitter_ms)
    assert all(shortest <= length <= 101 for length in lengths)
    assert len(set(lengths)) > 5
    assert lengths == _segment_lengths("flights-0", jitter_ms) != _segment_lengths("flights-1", jitter_ms)
    assert set(_segment_lengths("flights-0", 0)) == {101}


def test_a_batch_must_have_the_next_offset(place: Place) -> None:
    """Any other offset is a bug of the caller, found before the write."""
    log = place.open()
    append(log)
    batch = batch_at(5)
    with pytest.raises(AssertionError):
        log.append(batch, [read_header(batch)])
    assert log.log_end_offset == 1


def test_a_failed_write_is_cut_back(files: MemoryFileSystem, place: Place) -> None:
    """A full disk refuses the append, wherever the write is torn; the same append works when there is
    space.
    """
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


def test_a_short_write_is_continued(files: MemoryFileSystem, place: Place) -> None:
    """A write that ends early without an error is no failure."""
    log = place.open()
    append(log)
    files.inject(Fault(None, "pwrite", written=10))
    append(log)
    assert contents(log) == [batch_at(0), batch_at(1)]


def test_a_roll_that_fails_keeps_the_old_segment(files: MemoryFileSystem, place: Place) -> None:
    """If no new file can be created the append is refused, and the next one tries again."""
    log, batches = filled(place, 10)
    files.inject(Fault(errno.ENOSPC, "open", times=None))
    with pytest.raises(OSError, match="No space"):
        append(log, size=900)
    assert contents(log) == batches
    files.heal()
    batches.append(append(log, size=900))
    assert contents(log) == contents(place.open()) == batches


def test_a_log_that_cannot_be_cut_back_refuses_appends_until_recovered(
    files: MemoryFileSystem, place: Place
) -> None:
    """With garbage after its end a log stays readable, refuses appends, and recovers when the disk does."""
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
    files.inject(Fault(errno.ENXIO, "pread", times=None))
    with pytest.raises(OSError, match="Input/output"):
        log.recover()  # without reading the log first: that may take seconds
    with pytest.raises(LogFailed):
        append(log)
    files.heal()
    assert log.recover() is None, "only garbage was cut"
    second = append(log)
    assert contents(log) == [first, second]


def test_idle_logs_have_no_open_descriptor(tmp_path: Path) -> None:
    """After `close_files` no file of the log is open, and all operations still work."""
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
    """Bytes, a bytearray, and a view of a request."""
    log = place.open()
    buffer = encode_batch([Record(b"k", b"v", 1)])
    place_batch(buffer, 0, 0, 3)
    log.append(buffer, [read_header(buffer)])
    frame = b"request" + batch_at(1)
    view = memoryview(frame)[7:]
    log.append(view, [read_header(view)])
    assert contents(log) == [bytes(buffer), bytes(view)]

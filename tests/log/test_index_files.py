"""Index files are Kafka's and optional: a damaged, missing or cut one is rebuilt."""

from __future__ import annotations

import errno

import pytest
from tests.log.support import DIRECTORY, Place, append, contents, filled, first_at, names, sync

from headgate.log.batch import read_header
from headgate.log.filesystem import Fault, MemoryFileSystem
from headgate.log.log import LogSettings


@pytest.mark.parametrize("entries", [0, 1, 2])
def test_a_time_index_cut_between_entries_is_rebuilt(
    files: MemoryFileSystem, place: Place, entries: int
) -> None:
    """Later records are found by time, and retention uses their timestamps."""
    log, _ = filled(place, 40)
    timestamps = [segment.max_timestamp for segment in log.segments]
    closed = log.segments.closed[1]
    log.close()
    path = closed.path(".timeindex")
    assert files.size(path) > 12 * entries
    files.open(path).truncate(12 * entries)
    log = place.open(clean=True)
    last = closed.next_offset - 1
    assert first_at(log, 1000 + last) == (1000 + last, last)
    assert [segment.max_timestamp for segment in log.segments] == timestamps
    assert files.size(path) > 12 * entries


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
def test_a_damaged_index_is_rebuilt(
    files: MemoryFileSystem, place: Place, spoil: object, suffix: str, which: int
) -> None:
    """Every offset and every timestamp is found, and no batch is dropped."""
    assert callable(spoil)
    log, batches = filled(place)
    log.close()
    spoil(files, DIRECTORY / names(place, suffix)[which])
    log = place.open(clean=True)
    for offset in range(40):
        assert log.read(offset, 1) == batches[offset]
        assert first_at(log, 1000 + offset) == (1000 + offset, offset)
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
    """Without space for an index file the roll continues, and reads work."""
    files.inject(Fault(errno.ENOSPC, "pwrite", times=None, path_ends="index.tmp"))
    log, batches = filled(place)
    sync(log)
    log.close_files()
    assert contents(log) == batches
    assert [log.read(at, 1) for at in range(40)] == batches
    files.crash()
    assert contents(place.open()) == batches


def test_an_outdated_index_is_removed(files: MemoryFileSystem, place: Place) -> None:
    """If the segment grew and a new index cannot be written."""
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
        assert first_at(log, 1000 + offset) == (1000 + offset, offset)


def test_a_disk_that_fails_while_an_index_is_built_hides_no_batches(files: MemoryFileSystem) -> None:
    """The read that meets the error raises it, and the next one finds every batch."""
    place = Place(files, settings=LogSettings(segment_bytes=3_000_000, index_interval_bytes=200))
    log = place.open()
    while log.segment_count < 3:
        append(log, size=60_000)
    log.close()
    first = log.segments.closed[0]
    for suffix in (".index", ".timeindex"):
        files.remove(first.path(suffix))
    log = place.open(clean=True)
    files.inject(Fault(kind="pread", after=2, path_ends=first.path().name))
    offset = first.next_offset - 2
    with pytest.raises(OSError, match="Input/output"):
        log.read(offset, 1)
    assert read_header(log.read(offset, 1)).base_offset == offset
    assert first_at(log, 1000 + offset) == (1000 + offset, offset)

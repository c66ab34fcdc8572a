"""Preallocated space: taken as the log grows, returned when it no longer grows."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.log.support import DIRECTORY, Place, append, contents, memory, sync

from headgate.log.damage import RecordsMissing
from headgate.log.filesystem import Fault, MemoryFileSystem, OsFileSystem
from headgate.log.log import LogSettings

WITH_ROOM = LogSettings(segment_bytes=10_000, index_interval_bytes=500, room_bytes=2000, room_after_bytes=300)
FIRST = f"{0:020d}.log"


def with_room(files: MemoryFileSystem | None = None) -> Place:
    return Place(files or memory(), settings=WITH_ROOM)


def file_bytes(place: Place, name: str = FIRST) -> int:
    return place.files.size(place.directory / name)


def test_preallocation_doubles_the_file_up_to_a_limit() -> None:
    """A small log has none."""
    place = with_room()
    log = place.open()
    ahead = []
    for _ in range(60):
        append(log, size=100)
        ahead.append(file_bytes(place) - log.size_bytes)
        assert ahead[-1] == 0 if log.size_bytes < 300 else ahead[-1] <= min(2000, log.size_bytes)
    assert ahead[0] == 0
    assert max(ahead) > 1800
    assert len(contents(log)) == 60


def test_a_preallocated_segment_has_its_full_size() -> None:
    """From its first batch on, in every segment; a crash does not affect the log."""
    settings = LogSettings(segment_bytes=10_000, index_interval_bytes=500, reserves_segments=True)
    files = memory()
    place = Place(files, settings=settings)
    log = place.open()
    append(log, size=100)
    assert file_bytes(place) == 10_000
    while log.segment_count < 2:
        append(log, size=100)
    sync(log)
    first, second = sorted(name for name in files.listdir(DIRECTORY) if name.endswith(".log"))
    assert file_bytes(place, first) < 10_000 == file_bytes(place, second)
    end = log.log_end_offset
    files.crash()
    log = place.open(clean=False)
    assert log.log_end_offset == end
    assert not place.reported
    append(log, size=100)
    assert file_bytes(place, second) == 10_000


def test_unused_space_is_returned_when_a_segment_is_closed() -> None:
    """By a roll, and when the log is closed."""
    files = memory()
    place = with_room(files)
    log = place.open()
    while log.segment_count < 3:
        append(log, size=100)
    sync(log)
    first, second, last = sorted(name for name in files.listdir(DIRECTORY) if name.endswith(".log"))
    held = log.size_bytes
    log.close()
    assert file_bytes(place, first) + file_bytes(place, second) + file_bytes(place, last) == held
    files.crash()
    log = place.open(clean=True)
    assert log.size_bytes == held
    assert not place.reported


def test_preallocated_space_left_by_a_crash_is_no_loss() -> None:
    """Nothing is reported, and the file is cut to its batches."""
    files = memory()
    place = with_room(files)
    log = place.open()
    batches = [append(log, size=100) for _ in range(5)]
    sync(log)
    assert file_bytes(place) > log.size_bytes
    files.crash()
    log = place.open()
    assert contents(log) == batches
    assert not place.reported
    assert file_bytes(place) == log.size_bytes
    append(log, size=100)
    assert file_bytes(place) > log.size_bytes


def test_zeros_in_place_of_synced_records_are_damage() -> None:
    """The log does not open."""
    place = with_room()
    log = place.open()
    batches = [append(log, size=100) for _ in range(5)]
    sync(log)
    log.close()  # which leaves word of how far the disk has the log
    size = len(batches[-1])
    place.files.open(DIRECTORY / FIRST).pwrite(bytes(size), log.size_bytes - size)
    before = file_bytes(place)
    with pytest.raises(
        RecordsMissing, match=r"records between 4 and 4, which were durable, cannot be read .*zeros are"
    ):
        place.open()
    assert file_bytes(place) == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_without_preallocation_the_file_grows_as_it_is_written(code: int) -> None:
    """If no space can be reserved."""
    files = memory()
    place = with_room(files)
    log = place.open()
    files.inject(Fault(code, "reserve", times=None))
    batches = [append(log, size=100) for _ in range(20)]
    sync(log)
    assert file_bytes(place) == log.size_bytes
    assert contents(log) == batches
    log.close()
    assert contents(place.open(clean=True)) == batches


def test_a_failed_write_returns_the_preallocated_space() -> None:
    """The next write preallocates again."""
    files = memory()
    place = with_room(files)
    log = place.open()
    batches = [append(log, size=100) for _ in range(5)]
    files.inject(Fault(errno.ENOSPC, "pwrite", written=50))
    with pytest.raises(OSError, match="No space left"):
        append(log, size=100)
    assert file_bytes(place) == log.size_bytes
    batches.append(append(log, size=100))
    assert file_bytes(place) > log.size_bytes
    assert contents(log) == batches


def test_preallocation_on_a_real_disk(tmp_path: Path) -> None:
    """The system reserves blocks, which read as zeros."""
    place = Place(OsFileSystem(), tmp_path / "flights-0", WITH_ROOM)
    log = place.open()
    batches = [append(log, size=100) for _ in range(20)]
    sync(log)
    path = place.directory / FIRST
    assert path.stat().st_size > log.size_bytes
    assert not path.read_bytes()[log.size_bytes :].strip(b"\0")
    assert contents(place.open()) == batches
    assert path.stat().st_size == log.size_bytes
    assert not place.reported


def test_a_closed_segment_is_cut_durably() -> None:
    """Its cut after a failed write is durable before the next segment begins."""
    files = memory()
    place = with_room(files)
    log = place.open()
    batches = [append(log, size=100) for _ in range(5)]
    sync(log)
    files.inject(Fault(errno.ENOSPC, "pwrite", written=50))
    with pytest.raises(OSError, match="No space left"):
        append(log, size=100)
    held = log.size_bytes
    batches.append(append(log, size=9900))  # too large for what is left of the segment
    sync(log)
    assert log.segment_count == 2
    files.crash()
    log = place.open()
    assert file_bytes(place) == held
    assert contents(log) == batches

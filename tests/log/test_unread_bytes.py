"""Bytes on the disk are checked before use: batches by checksums, indexes by the batches."""

from __future__ import annotations

import struct

import pytest
from tests.log.support import DIRECTORY, Place, append, batch_at, contents, first_at, memory, names, sync

from headgate.log.batch import iterate_records
from headgate.log.filesystem import MemoryFileSystem
from headgate.log.header import CorruptBatch
from headgate.log.log import Log, LogSettings

BATCH = len(batch_at(0))


def reopened(files: MemoryFileSystem, place: Place, count: int = 12) -> Log:
    """A log of one segment that was closed well and is open again."""
    log = place.open()
    for _ in range(count):
        append(log)
    log.close()
    return place.open(clean=True)


def flip(files: MemoryFileSystem, name: str, at: int) -> None:
    file = files.open(DIRECTORY / name)
    file.pwrite(bytes([file.pread(1, at)[0] ^ 0x40]), at)


def offsets(data: bytes) -> list[int]:
    return [offset for offset, _ in iterate_records(data)]


@pytest.mark.parametrize("which", [0, 5, 11])
@pytest.mark.parametrize("max_bytes", [1, 3 * BATCH, 1 << 20])
def test_a_damaged_batch_is_never_returned(files: MemoryFileSystem, which: int, max_bytes: int) -> None:
    """Batches before and after it are; every read of it is refused."""
    place = Place(files, settings=LogSettings())
    log = reopened(files, place)
    flip(files, f"{0:020d}.log", which * BATCH + 70)
    for _ in range(2):
        for first in range(12):
            if first == which:
                with pytest.raises(CorruptBatch, match="is not what was written"):
                    log.read(first, max_bytes)
                continue
            found = offsets(log.read(first, max_bytes))
            end = which if first < which else 12
            assert found == list(range(first, min(end, first + max(max_bytes // BATCH, 1))))


def test_a_checksum_is_verified_once(files: MemoryFileSystem, place: Place) -> None:
    """And never for bytes that this process has written."""
    place.settings = LogSettings()
    log = reopened(files, place)
    assert offsets(log.read(3, 1 << 20)) == list(range(3, 12))
    flip(files, f"{0:020d}.log", 5 * BATCH + 70)
    assert offsets(log.read(3, 1 << 20)) == list(range(3, 12))
    assert offsets(log.read(0, 1 << 20)) == list(range(5))
    append(log)
    sync(log)
    flip(files, f"{0:020d}.log", 12 * BATCH + 70)
    assert offsets(log.read(12, 1 << 20)) == [12]


def test_a_wrong_index_is_detected_and_rebuilt(files: MemoryFileSystem, place: Place) -> None:
    """With any flipped byte every offset and every timestamp is found."""
    log = place.open()
    batches = [append(log) for _ in range(40)]
    log.close()
    tried = 0
    for suffix in (".index", ".timeindex"):
        for name in names(place, suffix):
            whole = files.open(DIRECTORY / name).pread(1 << 20, 0)
            for at in range(len(whole)):
                for mask in (0x01, 0x40):
                    files.open(DIRECTORY / name).pwrite(bytes([whole[at] ^ mask]), at)
                    log = place.open(clean=True)
                    base = int(name[:20])
                    for offset in range(base, min(base + 12, 40)):
                        assert offsets(log.read(offset, BATCH))[0] == offset, (name, at)
                        assert offsets(log.read(offset, 4 * BATCH))[0] == offset
                        assert first_at(log, 1000 + offset) == (1000 + offset, offset), (name, at)
                    log.close_files()
                    file = files.open(DIRECTORY / name)
                    file.truncate(0)
                    file.pwrite(whole, 0)
                    tried += 1
    assert tried > 200
    assert contents(place.open(clean=True)) == batches


def test_an_index_of_another_segment_is_detected(files: MemoryFileSystem, place: Place) -> None:
    """Its entries name missing batches."""
    log = place.open()
    for at in range(40):
        append(log, size=20 + at % 3 * 7)
    log.close()
    for suffix in (".index", ".timeindex"):
        one, other = names(place, suffix)[1:3]
        aside = DIRECTORY / "aside"
        files.rename(DIRECTORY / one, aside)
        files.rename(DIRECTORY / other, DIRECTORY / one)
        files.rename(aside, DIRECTORY / other)
    log = place.open(clean=True)
    for offset in range(40):
        assert offsets(log.read(offset, 1))[0] == offset
        assert first_at(log, 1000 + offset) == (1000 + offset, offset)


def test_an_index_entry_between_batches_does_not_cut_a_read(files: MemoryFileSystem, place: Place) -> None:
    """The end of a read is looked up in the index too."""
    place.settings = LogSettings(index_interval_bytes=200)
    log = reopened(files, place, 30)
    log.read(0, 1 << 20)
    index = names(place, ".index")[0]
    last, position = struct.unpack(">ii", files.open(DIRECTORY / index).pread(8, 0))
    files.open(DIRECTORY / index).pwrite(struct.pack(">ii", last, position - 9), 0)
    log = place.open(clean=True)
    assert offsets(log.read(0, 1 << 20)) == list(range(30))
    assert len(log.read(0, position + 5)) == (position + 5) // BATCH * BATCH


WRONG_HEADERS = {
    "zeros": bytes(61),
    "an offset of long ago": struct.pack(">q", 1),
    "an offset far ahead": struct.pack(">q", 1 << 40),
    "a length that leads nowhere": struct.pack(">qi", 5, 3 * BATCH),
}


@pytest.mark.parametrize("interval", [1, BATCH])
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("wrong", WRONG_HEADERS)
def test_a_wrong_header_hides_no_batch(
    files: MemoryFileSystem, wrong: str, is_closed: bool, interval: int
) -> None:
    """Each read of an offset is refused or correct, repeatedly; no later batch is returned."""
    settings = LogSettings(segment_bytes=12 * BATCH if is_closed else 1 << 20, index_interval_bytes=interval)
    place = Place(files, settings=settings)
    reopened(files, place, 20).close()
    files.open(DIRECTORY / f"{0:020d}.log").pwrite(WRONG_HEADERS[wrong], 5 * BATCH)
    log = place.open(clean=True)
    for _ in range(2):
        refused = set()
        for offset in range(20):
            try:
                assert offsets(log.read(offset, BATCH)) == [offset]
            except CorruptBatch:
                refused.add(offset)
        assert 5 in refused
        assert refused <= set(range(5, 9)), refused
    append(log)
    assert offsets(log.read(20, BATCH)) == [20]
    assert offsets(log.read(19, BATCH)) == [19]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("at", [5, 19])
def test_a_too_large_offset_is_detected_at_the_start(
    files: MemoryFileSystem, at: int, is_clean: bool
) -> None:
    """It is damage, or the end of the log."""
    place = Place(files, settings=LogSettings(segment_bytes=12 * BATCH, index_interval_bytes=1))
    log = place.open()
    for _ in range(20):
        append(log)
    if is_clean:
        log.close()
    segment, position = (0, at) if at < 12 else (12, at - 12)
    files.open(DIRECTORY / f"{segment:020d}.log").pwrite(struct.pack(">q", 1 << 40), position * BATCH)
    try:
        log = place.open(clean=is_clean)
    except OSError:
        return
    assert log.log_end_offset in (5, 19, 20)


UNPROTECTED = {*range(8), *range(12, 16)}
"""Bytes of a header that can have any value and no checksum: base offset and leader epoch."""


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_flipped_bit_in_a_header_skips_no_record(is_closed: bool) -> None:
    """A read of any offset, also one in the middle of a batch, is refused or has that offset."""
    size = len(batch_at(0, 3))
    settings = LogSettings(segment_bytes=12 * size if is_closed else 1 << 20, index_interval_bytes=5 * size)
    for bit in range(61 * 8):
        if bit // 8 in UNPROTECTED:
            continue
        for which in (5, 11):
            files = memory()
            place = Place(files, settings=settings)
            log = place.open()
            for _ in range(14):
                append(log, 3)
            log.close()
            log = place.open(clean=True)
            file, at = files.open(DIRECTORY / f"{0:020d}.log"), which * size + bit // 8
            file.pwrite(bytes([file.pread(1, at)[0] ^ 1 << bit % 8]), at)
            for offset in range(42):
                try:
                    first = offsets(log.read(offset, BATCH))[0]
                except CorruptBatch:
                    continue
                assert offset - 2 <= first <= offset, (bit, which)

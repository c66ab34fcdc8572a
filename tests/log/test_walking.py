"""Walks from batch to batch in a file, the end of written bytes, and whole batches after damage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crc32c import crc32c
from tests.log.support import DIRECTORY, Place, append, batch_at, filled, memory, names

from headgate.log import walking
from headgate.log.batch import CorruptBatch, read_header
from headgate.log.filesystem import File
from headgate.log.header import CRC_END, HEADER_BYTES
from headgate.log.segment_walk import walk_segments
from headgate.log.segments import last_crc
from headgate.log.walking import (
    batch_size,
    checked_batches,
    find_batch,
    find_whole_batch,
    walk_batches,
    written_end,
)

THREE = [batch_at(0, 2), batch_at(2), batch_at(5, 3)]
"""Batches of the offsets 0 and 1, 2, and 5 to 7."""
BYTES = b"".join(THREE)
SECOND, THIRD = len(THREE[0]), len(THREE[0]) + len(THREE[1])


def file_of(data: bytes) -> File:
    """An open file with these bytes."""
    files = memory()
    file = files.open(DIRECTORY.parent / "file", create=True)
    file.pwrite(data, 0)
    return file


def walked(data: bytes, position: int = 0, end: int | None = None) -> list[tuple[int, bytes]]:
    """Where each batch begins, and its bytes, which its header fits."""
    found = []
    for at, header, batch in walk_batches(file_of(data), position, len(data) if end is None else end):
        assert header == read_header(bytes(batch))
        found.append((at, bytes(batch)))
    return found


@pytest.fixture(params=[62, 200, 1 << 20])
def chunk_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How much of a file is read at a time: less than a batch, some batches, all."""
    size: int = request.param
    monkeypatch.setattr(walking, "CHUNK_BYTES", size)
    monkeypatch.setattr(walking, "_WALK_BYTES", size)
    return size


def test_every_batch_is_visited(chunk_bytes: int) -> None:
    """From the given position to the given end, whatever the chunk size."""
    places = [0, SECOND, THIRD]
    assert walked(BYTES) == list(zip(places, THREE, strict=True))
    assert walked(BYTES + b"rest", SECOND, len(BYTES)) == list(zip(places[1:], THREE[1:], strict=True))
    assert walked(BYTES, 0, 0) == walked(BYTES, 5, 5) == []


@pytest.mark.parametrize("cut", [1, HEADER_BYTES - 1, HEADER_BYTES, len(THREE[2]) - 1])
def test_an_incomplete_batch_raises_after_the_others(chunk_bytes: int, cut: int) -> None:
    """Cut in its header or after it."""
    walk = walk_batches(file_of(BYTES[: THIRD + cut]), 0, THIRD + cut)
    assert [next(walk)[0], next(walk)[0]] == [0, SECOND]
    with pytest.raises(CorruptBatch, match=f"a batch at {THIRD} is cut off"):
        next(walk)


@pytest.mark.parametrize(
    ("field", "what"),
    [(bytes(12), "zeros are"), (b"\0" * 11 + b"\x30", "no batch"), (b"\1" + bytes(11), "no")],
)
def test_bytes_that_are_no_batch_raise(field: bytes, what: str) -> None:
    """A batch has at least its header: 49 bytes after the length."""
    with pytest.raises(CorruptBatch, match=f"{what}.* at {SECOND}"):
        walked(THREE[0] + field + bytes(80))
    whole = bytes(8) + b"\0\0\0\x31" + bytes(49)
    assert walked(whole) == [(0, whole)]
    assert batch_size(b"x" + whole, 1, 0) == HEADER_BYTES
    with pytest.raises(CorruptBatch, match="a batch of 60 bytes"):
        batch_size(b"\0" * 11 + b"\x30", 0, 7)


def test_the_batch_that_reaches_an_offset_is_found(chunk_bytes: int) -> None:
    """The one that has it, or the next one; the end if none does."""
    file = file_of(BYTES)
    found = [find_batch(file, 0, len(BYTES), offset) for offset in range(9)]
    assert found == [0, 0, SECOND, THIRD, THIRD, THIRD, THIRD, THIRD, len(BYTES)]
    assert find_batch(file, SECOND, len(BYTES), 0) == SECOND
    assert find_batch(file, 0, THIRD, 5) == THIRD
    with pytest.raises(CorruptBatch, match=f"within a batch header at {THIRD}"):
        find_batch(file, 0, THIRD + HEADER_BYTES - 1, 9)


def test_the_end_of_written_bytes_excludes_zeros(chunk_bytes: int) -> None:
    """However many, and never before the start."""
    for zeros in (0, 1, 61, 62, 63, 500):
        data = b"\0" * 10 + b"written" + b"\0" * zeros
        pread = file_of(data).pread
        assert written_end(pread, 0, len(data)) == 17
        assert written_end(pread, 16, len(data)) == 17
        assert written_end(pread, 17, len(data)) == 17
        assert written_end(pread, 0, 12) == 12
        assert written_end(pread, 3, 10) == 3


@pytest.mark.parametrize("before", [0, 1, 61, 62, 138, 139, 140, 400])
def test_a_whole_batch_is_found_after_any_bytes(chunk_bytes: int, before: int) -> None:
    """Wherever it begins, if it is before the end and its offset is not too small."""
    if chunk_bytes < HEADER_BYTES * 2:
        return
    for offset in (5, 2**32 + 3):
        batch = batch_at(offset, 2)
        data = b"\xab" * before + batch
        pread = file_of(data).pread
        for least in (offset, offset - 4, 0 if offset == 5 else offset - 2**31):
            assert find_whole_batch(pread, 0, len(data), least) == before
        assert find_whole_batch(pread, before, len(data), offset) == before
        assert find_whole_batch(pread, before + 1, len(data), offset) is None
        assert find_whole_batch(pread, 0, len(data), offset + 1) is None
        assert find_whole_batch(pread, 0, len(data) - 1, offset) is None
        assert find_whole_batch(file_of(data[:-1]).pread, 0, len(data), offset) is None


def _summed(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[CRC_END:])).to_bytes(4, "big")
    return bytes(batch)


def test_a_similar_batch_is_not_whole() -> None:
    """Checksum, format, length and last offset must be valid."""
    good = batch_at(5, 2)
    spoilt = {}
    for name, at, byte in (("format", 16, 1), ("checksum", 30, 255), ("length", 11, 0x30)):
        spoilt[name] = bytearray(good)
        spoilt[name][at] = byte
    spoilt["last offset"] = bytearray(good)
    spoilt["last offset"][23:27] = b"\xff" * 4
    spoilt["last offset"][:] = _summed(spoilt["last offset"])
    for name, data in spoilt.items():
        assert find_whole_batch(file_of(bytes(data)).pread, 0, len(data), 0) is None, name
    assert find_whole_batch(file_of(good).pread, 0, len(good), 0) == 0
    assert find_whole_batch(file_of(good[: HEADER_BYTES - 1]).pread, 0, len(good), 0) is None
    one = batch_at(5)
    assert find_whole_batch(file_of(one).pread, 0, len(one), 5) == 0, "its last offset delta is 0"


def test_the_search_for_a_whole_batch_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not go far beyond the damage."""
    monkeypatch.setattr(walking, "_SEARCHED_BYTES", 300)
    batch = batch_at(5)
    for before, found in ((300 - HEADER_BYTES, 300 - HEADER_BYTES), (300, None)):
        data = b"\xab" * before + batch
        assert find_whole_batch(file_of(data).pread, 0, len(data), 5) == found


def test_batches_are_checked_by_checksum_and_order() -> None:
    """Gaps between offsets are allowed, repetitions are not."""

    def batches(*some: bytes) -> Iterator[tuple[object, bytes]]:
        return checked_batches((read_header(one), one) for one in some)

    assert [batch for _, batch in batches(*THREE)] == THREE
    with pytest.raises(CorruptBatch, match="offset 1 is where 2 was expected"):
        list(batches(THREE[0], batch_at(1)))
    with pytest.raises(CorruptBatch, match="CRC of the batch at offset 0"):
        list(batches(THREE[0][:-1] + b"\xff"))


def test_a_walk_over_segments_prevents_their_replacement(place: Place) -> None:
    """From the batch that reaches an offset to the last one below another."""
    log, batches = filled(place, 25)
    segments = log.segments
    for start, end in ((0, 25), (0, 8), (3, 9), (7, 12), (9, 25), (12, 12), (24, 24), (20, 99)):
        found = [batch for _, batch in walk_segments(segments, start, end)]
        assert found == batches[start:end]
    walk = walk_segments(segments, 0, 25)
    next(walk)
    assert segments.walks == 1
    log.close_files()  # as when many other logs are used between two slices
    assert sum(1 for _ in walk) == 24
    assert segments.walks == 0
    three = append(log, 3)
    assert [batch for _, batch in walk_segments(segments, 26, 28)] == [three]


def test_last_crc_is_that_of_the_batch_at_the_end(place: Place) -> None:
    """-1 if no batch ends at the offset, or it cannot be read."""
    log, batches = filled(place, 12)
    batches.append(append(log, 3))
    crcs = [read_header(batch).crc for batch in batches]
    found = [last_crc(log.segments, end) for end in range(17)]
    assert found == [-1, *crcs[:12], -1, -1, crcs[12], -1]
    file = place.files.open(DIRECTORY / names(place, ".log")[0])
    file.truncate(60)
    log.close_files()
    assert [last_crc(log.segments, end) for end in (1, 12)] == [-1, crcs[11]]

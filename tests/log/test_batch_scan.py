"""Batches are found, checked, and never handed on when their CRC does not match."""

from __future__ import annotations

import pytest
from tests.spark.support import chunk_of, numbered

from headgate.log.batch_scan import Scan, scan_chunk
from headgate.log.header import read_header

LOG = [numbered(3, 0), numbered(1, 3), numbered(40, 4), numbered(2, 44)]
DATA = b"".join(LOG)


def bases(scan: Scan) -> list[int]:
    """The base offsets of the batches found good."""
    found: list[int] = scan.batches.base_offset.tolist()
    return found


def test_headers_come_out_as_the_log_reads_them() -> None:
    """Every column equals what `headgate.log` reads from the same header."""
    batches = scan_chunk(chunk_of(DATA)).batches
    at = 0
    for index, batch in enumerate(LOG):
        header = read_header(batch)
        assert batches.at[index] == at
        for column, value in {
            "size": header.size,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "leader_epoch": header.leader_epoch,
            "attributes": header.attributes,
            "base_timestamp": header.base_timestamp,
            "max_timestamp": header.max_timestamp,
            "producer_id": header.producer_id,
            "record_count": header.record_count,
        }.items():
            assert getattr(batches, column)[index] == value, column
        at += header.size


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 100, [0, 3, 4, 44]), (3, 100, [3, 4, 44]), (2, 100, [0, 3, 4, 44]), (43, 44, [4]), (46, 100, [])],
)
def test_only_batches_with_wanted_offsets_are_taken(start: int, end: int, found: list[int]) -> None:
    """A batch is taken when any of its offsets is wanted, and not otherwise."""
    scan = scan_chunk(chunk_of(DATA, start, end))
    assert bases(scan) == found


def test_a_scan_stops_at_the_first_incomplete_batch_wherever_it_is_cut() -> None:
    """However many bytes there are, all whole batches are found and the rest is left for later."""
    ends = [len(DATA[:0]), *(sum(map(len, LOG[: count + 1])) for count in range(len(LOG)))]
    for size in range(len(DATA) + 1):
        scan = scan_chunk(chunk_of(DATA[:size]))
        assert scan.end == max(end for end in ends if end <= size)
        assert len(bases(scan)) == ends.index(scan.end)
        assert not scan.corruptions
        assert not scan.broken


def test_an_incomplete_batch_says_how_large_it_will_be() -> None:
    """The reader of the file learns how much it must read to have the next batch whole."""
    scan = scan_chunk(chunk_of(DATA[: len(LOG[0]) + 61]))
    assert (scan.end, scan.missing) == (len(LOG[0]), len(LOG[1]))


@pytest.mark.parametrize("position", range(17, 130, 7))
def test_a_changed_byte_takes_its_batch_out_and_says_where(position: int) -> None:
    """One byte changed anywhere under the CRC, or in it, is found; the neighbours are still read."""
    spoiled = bytearray(DATA)
    at = len(LOG[0]) + len(LOG[1])
    spoiled[at + position] ^= 0x40
    scan = scan_chunk(chunk_of(spoiled))
    if not 23 <= position < 27:  # the last offset delta decides which offsets are wanted
        assert bases(scan) == [0, 3, 44]
        (corruption,) = scan.corruptions
        assert (corruption.position, corruption.size, corruption.base_offset) == (at, len(LOG[2]), 4)
        assert "CRC" in corruption.reason
    else:
        assert 4 not in bases(scan)


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [(8, b"\x00\x00\x00\x05", "length 5"), (8, b"\xff\xff\xff\xff", "length -1"), (16, b"\x01", "v1")],
)
def test_what_is_no_batch_stops_the_scan_with_its_reason(position: int, value: bytes, reason: str) -> None:
    """An impossible length or an old format cannot be stepped over."""
    spoiled = bytearray(DATA)
    at = len(LOG[0])
    spoiled[at + position : at + position + len(value)] = value
    scan = scan_chunk(chunk_of(spoiled))
    assert (bases(scan), scan.end) == ([0], at)
    assert reason in scan.broken

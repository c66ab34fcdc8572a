"""Find starts of batches in a large segment, so that several tasks can read it.

The segment's index has some positions. It is derived and may be missing, as for a segment that is being
written. So a position is used only if a whole batch with a valid checksum is there; without an index the next
such batch is searched for.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

from headgate.log.header import HEADER_BYTES, read_header
from headgate.log.index import OFFSET_ENTRY_BYTES, OffsetIndex
from headgate.log.segment_file import INDEX_SUFFIX
from headgate.log.walking import find_whole_batch, is_whole_batch
from headgate.spark.directory import SegmentFile


def batch_starts(segment: SegmentFile, written: int, longest: int) -> list[tuple[int, int]]:
    """Return position and base offset of batches about `longest` bytes apart, without the first."""
    positions = _indexed_positions(segment.path, written)
    found: list[tuple[int, int]] = []
    descriptor = os.open(segment.path, os.O_RDONLY)
    try:
        if not segment.is_same(os.fstat(descriptor)):
            return []  # the read reports it

        def pread(count: int, position: int) -> bytes:
            return os.pread(descriptor, count, position)

        target, least = longest, segment.base_offset
        while target + longest // 2 < written:
            at = _next_start(positions, pread, target, written, least)
            if at is None:
                break
            base_offset = read_header(pread(HEADER_BYTES, at)).base_offset
            found.append((at, base_offset))
            target, least = at + longest, base_offset + 1
    finally:
        os.close(descriptor)
    return found


def _next_start(
    positions: list[int], pread: Callable[[int, int], bytes], target: int, written: int, least_offset: int
) -> int | None:
    """Return the first batch at or after `target`."""
    if positions:
        for at in positions[bisect_left(positions, target) :]:
            if is_whole_batch(pread, at, written, least_offset):
                return at
    return find_whole_batch(pread, target, written, least_offset)


def _indexed_positions(path: Path, written: int) -> list[int]:
    """Return the positions in the segment's index; empty without a valid index."""
    try:
        data = path.with_name(path.name.removesuffix(path.suffix) + INDEX_SUFFIX).read_bytes()
    except OSError:
        return []
    # After the entries are zeros, preallocated by Kafka; an entry may end with zeros, too.
    used = -(-len(data.rstrip(b"\0")) // OFFSET_ENTRY_BYTES)
    index = OffsetIndex.from_bytes(data[: used * OFFSET_ENTRY_BYTES], written)
    return [] if index is None else index.positions.tolist()

"""Reads one segment when its log is opened: whole, or from its last index entry on."""

from __future__ import annotations

from contextlib import suppress

from crc32c import crc32c

from headgate.log.damage import out_of_order
from headgate.log.header import CRC_END, MAGIC, CorruptBatch
from headgate.log.index import MOST_RELATIVE_OFFSET
from headgate.log.segment import Segment
from headgate.log.walking import walk_batches


def walk_tail(segment: Segment, size: int) -> bool:
    """Load the last segment as a clean stop left it. Return False if it must be scanned instead."""
    segment.size = size
    if not segment.read_indexes():
        return False
    index, file = segment.offset_index, segment.file()
    position = index.positions[-1] if len(index) else 0
    segment.resume_at(position)
    try:
        if position:
            for _, header, _ in walk_batches(file, 0, size):
                segment.first_timestamp = header.max_timestamp
                break
        for at, header, _ in walk_batches(file, position, size):
            if header.base_offset < segment.next_offset or header.last_offset_delta < 0:
                return False
            if header.last_offset - segment.base_offset > MOST_RELATIVE_OFFSET:
                return False
            segment.note(at, header.size, header.last_offset, header.max_timestamp)
    except CorruptBatch:
        return False
    segment.synced_bytes = segment.unchecked_bytes = size
    segment.is_loaded_as_saved = True
    return True


def scan(segment: Segment, size: int, previous_end: int | None, gaps_to: int | None) -> str | None:
    """Read a segment's whole file and index it; return why it is bad after `segment.size` bytes, or None.

    Offsets may be missing up to `gaps_to`; None means anywhere.
    """
    segment.forget_batches()
    segment.is_loaded_as_saved = False
    segment.synced_bytes = segment.unchecked_bytes = 0
    if previous_end is not None and segment.base_offset < previous_end:
        return f"it begins at {segment.base_offset}, the segment before it ends at {previous_end}"
    expected = segment.base_offset
    try:
        for position, header, batch in walk_batches(segment.file(), 0, size):
            if header.magic != MAGIC:
                return f"message format {header.magic} at {position}"
            is_gap_allowed = gaps_to is None or header.base_offset <= gaps_to
            if header.base_offset < expected or (header.base_offset > expected and not is_gap_allowed):
                return f"offset {header.base_offset} at {position} where {expected} was expected"
            if header.last_offset - segment.base_offset > MOST_RELATIVE_OFFSET:
                return f"offset {header.last_offset} at {position} is too far ahead for its segment"
            if header.last_offset_delta < 0:
                return f"a last offset delta of {header.last_offset_delta} at {position}"
            if crc32c(batch[CRC_END:]) != header.crc:
                return f"the CRC is wrong at {position}"
            expected = header.next_offset
            segment.note(position, header.size, header.last_offset, header.max_timestamp)
    except CorruptBatch as error:
        return error.reason
    return None


def reopen(segment: Segment) -> None:
    """Load a segment whose successor was dropped, so that it can be appended to."""
    size = segment.size
    if not walk_tail(segment, size):
        scan(segment, size, None, None)


def end_of_saved(segment: Segment, size: int) -> int:
    """Return the end offset of a closed segment, or that of its readable part."""
    file = segment.file()
    end = segment.base_offset
    try:
        last = segment.last_index_entry()
        if last is not None and 0 < last[1] < size:
            with suppress(CorruptBatch):
                for at, header, _ in walk_batches(file, last[1], size):
                    if at == last[1] and header.last_offset != last[0]:
                        break
                    if at > last[1] and header.base_offset < end:
                        raise out_of_order(segment.path(), header.base_offset, end)
                    end = header.next_offset
                else:
                    return end
        # The index does not lead to the end: read the whole segment.
        end = segment.base_offset
        with suppress(CorruptBatch):
            for _, header, _ in walk_batches(file, 0, size):
                if header.base_offset < end:
                    raise out_of_order(segment.path(), header.base_offset, end)
                end = header.next_offset
        return end
    finally:
        segment.close_file()

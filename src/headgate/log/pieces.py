"""Divide the file of a segment into stretches of sound batches and bad pieces.

A batch is sound if its checksum is right. That says nothing of its base offset, its length, its leader epoch
and its format, which are not covered. Rules:

1. A batch whose checksum is right with another length that differs in one bit is sound: its length is wrong.
   What is inside of it, such as batches in the value of a record, is not looked at.
2. A bad batch whose own length leads to a sound one, or to the end of what was written, is one bad piece.
   Inside of it, only a batch with the offset after it is looked for.
3. Else the next sound batch is searched. As long as the header can be read, one that has neither the offset
   after it nor a successor may be in the value of a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from headgate.log.header import (
    CRC_END,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    read_header,
)
from headgate.log.walking import CHUNK_BYTES, walk_batches, written_end

if TYPE_CHECKING:
    from headgate.log.filesystem import File

_LARGEST_BYTES: Final = 1 << 28
_CHEAP_BYTES: Final = 1 << 18
"""A batch of this size or less is summed also if no batch seems to follow it."""
_MOST_FOLLOWED: Final = 1000
"""Damaged batches in a row that are passed by their lengths."""
_SEARCHED_BYTES: Final = 4 << 20
"""How far another batch is searched behind one that may be in the value of a record."""
_NEAR: Final = 1 << 20
"""Offsets behind the expected one, at which also a batch with a wrong length is searched."""
_LENGTH_BITS: Final = 31
_LAST_CODEC: Final = 4
_MAGIC_AT: Final = 16
_LEAST_RECORD_BYTES: Final = 7
_LIKELY: Final = re.compile(rb"\x02(?=.{4}\x00[\x00-\x7f][\x00-\x7f])", re.DOTALL)
"""From the magic of a batch to the first byte of its last offset delta."""
_LIKELY_BYTES: Final = 24


class Piece(NamedTuple):
    """Bytes of a file: a stretch of sound batches with rising offsets, or what is no sound batch."""

    start: int
    end: int
    header: BatchHeader | None
    """What is at the beginning; None: fewer bytes than a header has."""
    next_offset: int
    """The offset after a stretch, by its own base offsets."""
    batches: int
    """0: no sound batch."""
    has_gaps: bool = False
    """Whether offsets are missing in the stretch, as compaction may leave it."""

    @property
    def is_sound(self) -> bool:
        """Whether it is a stretch."""
        return self.batches > 0

    @property
    def base_offset(self) -> int:
        """Its first offset, by its own header."""
        assert self.header is not None
        return self.header.base_offset

    @property
    def offsets(self) -> int:
        """How many offsets a stretch has; 0 for what is none."""
        return self.next_offset - self.base_offset if self.is_sound else 0


def pieces_in(file: File, size: int, least_offset: int, compacted_to: int) -> list[Piece]:
    """Return the pieces of a file in order; zeros at its end are none. Raises OSError.

    Its first batch has the offset `least_offset`, if nothing else is known. Below `compacted_to` a stretch
    may have gaps.
    """
    found: list[Piece] = []
    position = 0
    while position < size:
        position = _read_sound(file, position, size, compacted_to, found)
        if position >= size or _is_room(file, position, size):
            break
        expected = found[-1].next_offset if found and found[-1].is_sound else least_offset
        found += _read_bad(file, position, size, expected)
        position, header = found[-1].end, found[-1].header
        is_placed = header is not None and header.base_offset == expected and _is_likely(header)
        least_offset = max(found[-1].next_offset if is_placed else expected, least_offset)
    return found


def parts_of(file: File, piece: Piece, cuts: set[int]) -> list[Piece]:
    """Return a stretch divided at some offsets. A batch that has one of them within is a part of its own."""
    parts: list[Piece] = []
    within = sorted(one for one in cuts if piece.base_offset < one < piece.next_offset)
    at = 0
    may_join = False
    for position, header, _ in walk_batches(file, piece.start, piece.end):
        first = at
        while at < len(within) and within[at] <= header.base_offset:
            at += 1
        is_cut = at < len(within) and within[at] < header.next_offset
        if parts and may_join and first == at and not is_cut:
            last = parts[-1]
            parts[-1] = last._replace(
                end=position + header.size,
                next_offset=header.next_offset,
                batches=last.batches + 1,
                has_gaps=last.has_gaps or header.base_offset > last.next_offset,
            )
        else:
            parts.append(Piece(position, position + header.size, header, header.next_offset, 1))
        may_join = not is_cut
    return parts


def _read_sound(file: File, position: int, size: int, compacted_to: int, found: list[Piece]) -> int:
    """Add the sound batches from a position on; return where the first other one begins."""
    first: BatchHeader | None = None
    start = next_offset = batches = 0
    has_gaps = False
    try:
        for at, header, batch in walk_batches(file, position, size):
            if header.last_offset_delta < 0 or crc32c(batch[CRC_END:]) != header.crc:
                break
            base_offset = header.base_offset
            is_next = base_offset == next_offset or next_offset < base_offset <= compacted_to
            if (
                is_next
                and first is not None
                and header.magic == first.magic == MAGIC
                and header.leader_epoch == first.leader_epoch
            ):
                has_gaps |= base_offset != next_offset
                batches += 1
            else:
                if first is not None:
                    found.append(Piece(start, at, first, next_offset, batches, has_gaps))
                first, start, batches, has_gaps = header, at, 1, False
            next_offset = header.next_offset
            position = at + header.size
    except CorruptBatch:
        pass
    if first is not None:
        found.append(Piece(start, position, first, next_offset, batches, has_gaps))
    return position


def _read_bad(file: File, position: int, size: int, expected: int) -> list[Piece]:
    """Return the pieces from a bad position up to the next sound batch, or up to the end."""
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return [Piece(position, size, None, 0, 0)]
    header = read_header(head)
    stated = position + header.size
    is_placed = header.base_offset == expected and HEADER_BYTES <= header.size <= size - position
    if is_placed and (stated == size or _begins_at(file, stated) == header.next_offset):
        return [_piece(file, position, stated)]  # only its records are damaged
    restored = _restored_end(file, position, size)
    if restored is not None:
        return [_piece(file, position, restored)]
    following = {header.next_offset, expected + header.last_offset_delta + 1}
    followed = _followed(file, position, size)
    is_readable = _is_likely(header) and 0 < header.record_count == header.last_offset_delta + 1
    if not followed and is_placed and is_readable and _may_begin(file, stated):
        followed = [_piece(file, position, stated)]
    if followed:
        end = followed[-1].end
        after = _begins_at(file, end)
        if after is not None and expected < after <= expected + end - position:
            return followed
        inside = _sound_in(file, position + 1, end, size, expected)
        ends = (at for at in inside if _begins_at(file, at) in following and _goes_on(file, at, size))
        nearer = next(ends, None)
        return followed if nearer is None else [_piece(file, position, nearer)]
    inside_to = 0 if not is_readable else stated if is_placed else size
    return [_piece(file, position, _searched(file, position, size, expected, following, inside_to))]


def _restored_end(file: File, position: int, size: int) -> int | None:
    """Return where the batch at a position ends if its checksum is right and one bit of its length wrong."""
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES or not _is_likely(header := read_header(head)):
        return None
    most = min(size - position, _LARGEST_BYTES)
    for bit in range(_LENGTH_BITS):
        other = ((header.size - LENGTH_FIELD_END) ^ (1 << bit)) + LENGTH_FIELD_END
        end = position + other
        is_possible = HEADER_BYTES <= other <= most
        if not is_possible or not (other <= _CHEAP_BYTES or end == size or _may_begin(file, end)):
            continue
        if crc32c(file.pread(other - CRC_END, position + CRC_END)) == header.crc:
            return end
    return None


def _may_begin(file: File, position: int) -> bool:
    head = file.pread(HEADER_BYTES, position)
    return len(head) == HEADER_BYTES and (not any(head) or _is_likely(read_header(head)))


def _is_likely(header: BatchHeader) -> bool:
    """Return whether the fields that a checksum covers can be those of a batch."""
    return (
        0 <= header.record_count <= header.last_offset_delta + 1
        and header.producer_epoch >= -1
        and header.base_sequence >= -1
        and 0 <= header.attributes < 1 << 7
        and header.codec <= _LAST_CODEC
        and min(header.base_timestamp, header.max_timestamp) >= -1
    )


def _is_room(file: File, position: int, size: int) -> bool:
    """Return whether only zeros follow, more than a batch can end with by chance."""
    if size - position < HEADER_BYTES or any(file.pread(HEADER_BYTES, position)):
        return False  # nearly always, without a look at the end of the file
    return written_end(file.pread, position, size) == position


def _is_sound(file: File, position: int, size: int) -> bool:
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return False
    header = read_header(head)
    if not HEADER_BYTES <= header.size <= min(size - position, _LARGEST_BYTES) or not _is_likely(header):
        return False
    has_room = header.codec or header.size >= HEADER_BYTES + header.record_count * _LEAST_RECORD_BYTES
    return bool(has_room) and crc32c(file.pread(header.size - CRC_END, position + CRC_END)) == header.crc


def _begins_at(file: File, position: int) -> int | None:
    """Return the base offset of a header at a position; None if it has none."""
    head = file.pread(HEADER_BYTES, position)
    return read_header(head).base_offset if len(head) == HEADER_BYTES else None


def _goes_on(file: File, position: int, size: int) -> bool:
    """Return whether a sound batch at a position is followed by what can follow it.

    A record of a bad batch may have a batch in it.
    """
    header = read_header(file.pread(HEADER_BYTES, position))
    after = position + header.size
    if not _is_sound(file, position, size):
        after = _restored_end(file, position, size) or after
    if after == size or _is_room(file, after, size) or _is_sound(file, after, size):
        return True
    return _begins_at(file, after) == header.next_offset


def _piece(file: File, position: int, end: int) -> Piece:
    """Return a piece between two positions: a sound batch if only its length is wrong, else a bad one."""
    head = file.pread(HEADER_BYTES, position)
    if end - position < HEADER_BYTES or len(head) < HEADER_BYTES:
        return Piece(position, end, None, 0, 0)
    header = read_header(head)
    is_sound = (
        end - position <= _LARGEST_BYTES
        and header.last_offset_delta >= 0
        and crc32c(file.pread(end - position - CRC_END, position + CRC_END)) == header.crc
    )
    return Piece(position, end, header, header.next_offset, int(is_sound))


def _followed(file: File, position: int, size: int) -> list[Piece]:
    """Return the damaged batches from a position on whose lengths lead to a sound one, or to the end."""
    found: list[Piece] = []
    while len(found) < _MOST_FOLLOWED:
        head = file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return []
        header = read_header(head)
        end = position + header.size
        if not HEADER_BYTES <= header.size <= size - position or (found and not _is_likely(header)):
            return []
        found.append(Piece(position, end, header, header.next_offset, 0))
        if end == size or _is_room(file, end, size) or _is_sound(file, end, size):
            return found
        position = end
    return []


def _sound_in(file: File, start: int, end: int, size: int, expected: int) -> Iterator[int]:
    """Yield where sound batches begin between two positions, whatever their base offsets are."""
    position = start
    while position < end:
        data = file.pread(min(CHUNK_BYTES, size - position), position)
        for match in _LIKELY.finditer(data):
            at = position + match.start() - _MAGIC_AT
            if not start <= at < end:
                continue
            base_offset = _begins_at(file, at)
            is_near = base_offset is not None and expected <= base_offset < expected + _NEAR
            if _is_sound(file, at, size) or (is_near and _restored_end(file, at, size)):
                yield at
        if position + len(data) >= size:
            return
        position += len(data) - _LIKELY_BYTES


def _searched(
    file: File, position: int, size: int, expected: int, following: set[int], inside_to: int
) -> int:
    """Return where the next sound batch behind a bad position begins; `size` if there is none.

    Before `inside_to` a batch may be in the value of a record.
    """
    alone: int | None = None
    for at in _sound_in(file, position + 1, size, size, expected):
        is_next = _begins_at(file, at) in following
        if at >= inside_to or (alone is not None and at - alone > _SEARCHED_BYTES):
            return at if alone is None else alone
        if _goes_on(file, at, size):
            return at if is_next or alone is None else alone
        if is_next and alone is None:
            alone = at
    return size if alone is None else alone

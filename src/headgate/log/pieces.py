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
_READ_TIMES: Final = 4
"""How many times the size of the file is read, at most, for batches that turn out to be none."""
_LEAST_LIMIT: Final = 64 << 20
"""That limit for a small file, in bytes."""
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
    bad = _BadParts(file, size)
    position = 0
    while position < size:
        position = _read_sound(file, position, size, compacted_to, found)
        if position >= size or bad.is_room(position):
            break
        expected = found[-1].next_offset if found and found[-1].is_sound else least_offset
        found += bad.pieces_at(position, expected)
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


class _BadParts:
    """Search what is in the bad parts of a file.

    What is read for batches that turn out to be none has a limit: any bytes of a record can look like a
    header, and say the length of the rest of the file.
    """

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self._limit = max(_READ_TIMES * size, _LEAST_LIMIT)
        self._wasted = 0
        """Bytes that were read for batches that are none."""

    def pieces_at(self, position: int, expected: int) -> list[Piece]:
        """Return the pieces from a bad position up to the next sound batch, or up to the end."""
        head = self._file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return [Piece(position, self._size, None, 0, 0)]
        header = read_header(head)
        stated = position + header.size
        is_placed = header.base_offset == expected and HEADER_BYTES <= header.size <= self._size - position
        if is_placed and (stated == self._size or self._begins_at(stated) == header.next_offset):
            return [self._piece(position, stated)]  # only its records are damaged
        restored = self._restored_end(position)
        if restored is not None:
            return [self._piece(position, restored)]
        following = {header.next_offset, expected + header.last_offset_delta + 1}
        followed = self._followed(position)
        is_readable = _is_likely(header) and 0 < header.record_count == header.last_offset_delta + 1
        if not followed and is_placed and is_readable and self._may_begin(stated):
            followed = [self._piece(position, stated)]
        if followed:
            end = followed[-1].end
            after = self._begins_at(end)
            if after is not None and expected < after <= expected + end - position:
                return followed
            inside = self._sound_in(position + 1, end, expected)
            ends = (at for at in inside if self._begins_at(at) in following and self._goes_on(at))
            nearer = next(ends, None)
            return followed if nearer is None else [self._piece(position, nearer)]
        inside_to = 0 if not is_readable else stated if is_placed else self._size
        return [self._piece(position, self._searched(position, expected, following, inside_to))]

    def _restored_end(self, position: int) -> int | None:
        """Return where a batch ends if its checksum is right and one bit of its length wrong."""
        head = self._file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES or not _is_likely(header := read_header(head)):
            return None
        most = min(self._size - position, _LARGEST_BYTES)
        for bit in range(_LENGTH_BITS):
            other = ((header.size - LENGTH_FIELD_END) ^ (1 << bit)) + LENGTH_FIELD_END
            end = position + other
            is_possible = HEADER_BYTES <= other <= most
            if not is_possible or not (other <= _CHEAP_BYTES or end == self._size or self._may_begin(end)):
                continue
            if self._is_right(position, end, header):
                return end
        return None

    def _is_right(self, position: int, end: int, header: BatchHeader) -> bool:
        """Return whether the bytes between two positions have the checksum of a header."""
        if self._wasted + end - position > self._limit:
            is_followed = end == self._size or self._begins_at(end) == header.next_offset
            if not is_followed or self._wasted > 2 * self._limit:
                return False
        is_right: bool = crc32c(self._file.pread(end - position - CRC_END, position + CRC_END)) == header.crc
        if not is_right:
            self._wasted += end - position
        return is_right

    def _may_begin(self, position: int) -> bool:
        head = self._file.pread(HEADER_BYTES, position)
        return len(head) == HEADER_BYTES and (not any(head) or _is_likely(read_header(head)))

    def is_room(self, position: int) -> bool:
        """Return whether only zeros follow, more than a batch can end with by chance."""
        if self._size - position < HEADER_BYTES or any(self._file.pread(HEADER_BYTES, position)):
            return False  # nearly always, without a look at the end of the file
        return written_end(self._file.pread, position, self._size) == position

    def _is_sound(self, position: int) -> bool:
        head = self._file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return False
        header = read_header(head)
        most = min(self._size - position, _LARGEST_BYTES)
        least = HEADER_BYTES + (0 if header.codec else header.record_count * _LEAST_RECORD_BYTES)
        is_possible = least <= header.size <= most and _is_likely(header)
        return is_possible and self._is_right(position, position + header.size, header)

    def _begins_at(self, position: int) -> int | None:
        """Return the base offset of a header at a position; None if it has none."""
        head = self._file.pread(HEADER_BYTES, position)
        return read_header(head).base_offset if len(head) == HEADER_BYTES else None

    def _goes_on(self, position: int) -> bool:
        """Return whether a sound batch at a position is followed by what can follow it.

        A record of a bad batch may have a batch in it.
        """
        header = read_header(self._file.pread(HEADER_BYTES, position))
        after = position + header.size
        if not self._is_sound(position):
            after = self._restored_end(position) or after
        if after == self._size or self.is_room(after) or self._is_sound(after):
            return True
        return self._begins_at(after) == header.next_offset

    def _piece(self, position: int, end: int) -> Piece:
        """Return a piece between two positions: a sound batch if only its length is wrong, else a bad one."""
        head = self._file.pread(HEADER_BYTES, position)
        if end - position < HEADER_BYTES or len(head) < HEADER_BYTES:
            return Piece(position, end, None, 0, 0)
        header = read_header(head)
        is_sound = (
            end - position <= _LARGEST_BYTES
            and header.last_offset_delta >= 0
            and crc32c(self._file.pread(end - position - CRC_END, position + CRC_END)) == header.crc
        )
        return Piece(position, end, header, header.next_offset, int(is_sound))

    def _followed(self, position: int) -> list[Piece]:
        """Return the damaged batches from a position on whose lengths lead to a sound one, or to the end."""
        found: list[Piece] = []
        while len(found) < _MOST_FOLLOWED:
            head = self._file.pread(HEADER_BYTES, position)
            if len(head) < HEADER_BYTES:
                return []
            header = read_header(head)
            end = position + header.size
            if not HEADER_BYTES <= header.size <= self._size - position or (found and not _is_likely(header)):
                return []
            found.append(Piece(position, end, header, header.next_offset, 0))
            if end == self._size or self.is_room(end) or self._is_sound(end):
                return found
            position = end
        return []

    def _sound_in(self, start: int, end: int, expected: int) -> Iterator[int]:
        """Yield where sound batches begin between two positions, whatever their base offsets are."""
        position = start
        while position < end:
            data = self._file.pread(min(CHUNK_BYTES, self._size - position), position)
            for match in _LIKELY.finditer(data):
                at = position + match.start() - _MAGIC_AT
                if not start <= at < end:
                    continue
                base_offset = self._begins_at(at)
                is_near = base_offset is not None and expected <= base_offset < expected + _NEAR
                if self._is_sound(at) or (is_near and self._restored_end(at)):
                    yield at
            if position + len(data) >= self._size:
                return
            position += len(data) - _LIKELY_BYTES

    def _searched(self, position: int, expected: int, following: set[int], inside_to: int) -> int:
        """Return where the next sound batch behind a bad position begins; `size` if there is none.

        Before `inside_to` a batch may be in the value of a record.
        """
        alone: int | None = None
        for at in self._sound_in(position + 1, self._size, expected):
            is_next = self._begins_at(at) in following
            if at >= inside_to or (alone is not None and at - alone > _SEARCHED_BYTES):
                return at if alone is None else alone
            if self._goes_on(at):
                return at if is_next or alone is None else alone
            if is_next and alone is None:
                alone = at
        return self._size if alone is None else alone


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

"""Divide the damaged file of a segment into stretches of batches and bad pieces, and choose what to trust.

A batch is sound if its checksum is right. That says nothing of its base offset, its length, its leader epoch
and its format, which are not covered. So sound batches that continue each other are taken together, and of
stretches that contradict each other those with more batches count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from headgate.log.header import CRC_END, HEADER_BYTES, MAGIC, BatchHeader, CorruptBatch, read_header
from headgate.log.walking import CHUNK_BYTES, find_whole_batch, walk_batches, written_end

if TYPE_CHECKING:
    from headgate.log.filesystem import File

_STEP_BYTES: Final = 32 << 20
"""Less than `find_whole_batch` searches."""
_LARGEST_BYTES: Final = 1 << 28
_MOST_FOLLOWED: Final = 1000
"""Damaged batches in a row that are passed by their lengths."""
_MOST_COMPARED: Final = 2000
"""Stretches of which each is compared with all others; of more, with the last ones before it."""


class Piece(NamedTuple):
    """Bytes of a file: a stretch of sound batches that continue each other, or what is no sound batch."""

    start: int
    end: int
    header: BatchHeader | None
    """What is at the beginning; None: fewer bytes than a header has."""
    next_offset: int
    """The offset after a stretch, by its own base offsets."""
    batches: int
    """0: no sound batch."""

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


def pieces_in(file: File, size: int, least_offset: int) -> list[Piece]:
    """Return the pieces of a file in order; zeros at its end are none. Raises OSError.

    Where nothing leads to the next sound batch, one from `least_offset` on is searched.
    """
    found: list[Piece] = []
    position = 0
    while position < size:
        position = _read_sound(file, position, size, found)
        if position >= size or _is_room(file, position, size):
            break
        expected = max((one.next_offset for one in found[-1:] if one.is_sound), default=least_offset)
        found += _read_bad(file, position, size, expected, least_offset)
        position = found[-1].end
    return found


def _read_sound(file: File, position: int, size: int, found: list[Piece]) -> int:
    """Add the sound batches from a position on; return where the first other one begins."""
    try:
        for at, header, batch in walk_batches(file, position, size):
            if header.last_offset_delta < 0 or crc32c(batch[CRC_END:]) != header.crc:
                return at
            last = found[-1] if found else None
            if (
                last is not None
                and last.is_sound
                and last.header is not None
                and _continues(last, at, header)
            ):
                found[-1] = last._replace(
                    end=at + header.size, next_offset=header.next_offset, batches=last.batches + 1
                )
            else:
                found.append(Piece(at, at + header.size, header, header.next_offset, 1))
            position = at + header.size
    except CorruptBatch:
        pass
    return position


def _continues(last: Piece, position: int, header: BatchHeader) -> bool:
    first = last.header
    return (
        first is not None
        and last.end == position
        and last.next_offset == header.base_offset
        and first.magic == header.magic == MAGIC
        and first.leader_epoch == header.leader_epoch
        and (last.batches > 1 or first.size == last.end - last.start)
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
    if not HEADER_BYTES <= header.size <= size - position or header.last_offset_delta < 0:
        return False
    return crc32c(file.pread(header.size - CRC_END, position + CRC_END)) == header.crc


def _read_bad(file: File, position: int, size: int, expected: int, least_offset: int) -> list[Piece]:
    """Return the pieces from a bad position up to the next sound batch, or up to the end."""
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return [Piece(position, size, None, 0, 0)]
    header = read_header(head)
    stated = position + header.size
    is_placed = header.base_offset == expected and HEADER_BYTES <= header.size <= size - position
    if is_placed and (stated == size or _begins_at(file, stated) == header.next_offset):
        return [_piece(file, position, stated)]  # only its records are damaged
    following = {header.next_offset, expected + header.last_offset_delta + 1}
    named = (
        _next_with(file, position + HEADER_BYTES, size, following) if header.last_offset_delta >= 0 else None
    )
    followed = _followed(file, position, size, expected)
    if followed and named is None:
        return followed
    searched = _searched(file, position, size if named is None else named, size, least_offset)
    return [_piece(file, position, searched)]


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
    if after == size or _is_room(file, after, size) or _is_sound(file, after, size):
        return True
    return _begins_at(file, after) == header.next_offset


def _next_with(file: File, position: int, size: int, base_offsets: set[int]) -> int | None:
    """Return where the next sound batch with one of these base offsets begins."""
    wanted = [one.to_bytes(8, "big") for one in base_offsets if 0 <= one < 1 << 63]
    while position < size:
        data = file.pread(min(CHUNK_BYTES, size - position), position)
        at = 0
        while True:
            places = [place for one in wanted if (place := data.find(one, at)) >= 0]
            if not places:
                break
            at = min(places)
            if _is_sound(file, position + at, size) and _goes_on(file, position + at, size):
                return position + at
            at += 1
        if position + len(data) >= size:
            return None
        position += max(len(data) - 7, 1)
    return None


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


def _followed(file: File, position: int, size: int, expected: int) -> list[Piece]:
    """Return the damaged batches from a position on whose lengths lead to a sound one, or to the end."""
    found: list[Piece] = []
    first = position
    while len(found) < _MOST_FOLLOWED:
        head = file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return []
        header = read_header(head)
        end = position + header.size
        if not HEADER_BYTES <= header.size <= size - position:
            return []
        found.append(Piece(position, end, header, header.next_offset, 0))
        if end == size or _is_room(file, end, size):
            return found
        if _is_sound(file, end, size):
            following = read_header(file.pread(HEADER_BYTES, end)).base_offset
            return found if expected < following <= expected + end - first else []
        position = end
    return []


def _searched(file: File, position: int, end: int, size: int, least_offset: int) -> int:
    """Return where the next sound batch behind a bad position begins; `end` if none begins before it."""
    start = position + 1
    while start < end:
        at = find_whole_batch(file.pread, start, size, least_offset)
        if at is None:
            start += _STEP_BYTES
        elif at >= end:
            return end
        elif _goes_on(file, at, size):
            return at
        else:
            start = at + 1
    return end


def chain_of(pieces: Sequence[Piece], first: int, limit: int, likely_end: int) -> list[int]:
    """Return the numbers of the stretches that count: of the sequence of growing offsets with most batches.

    They are between the offsets `first` and `limit`. Offsets that are missing although no byte is count
    against a sequence, and stretches that continue each other, or end at `likely_end`, for it.
    """
    numbers = [
        number
        for number, one in enumerate(pieces)
        if one.is_sound and first <= one.base_offset and one.next_offset <= limit
    ]
    best: list[tuple[int, int]] = []
    """For each of them the weight of the best sequence that ends with it, and the one before it; -1: none."""
    for at, number in enumerate(numbers):
        one = pieces[number]
        weight, previous = int(one.base_offset == first), -1
        for other in range(max(at - _MOST_COMPARED, 0), at):
            before = pieces[numbers[other]]
            if before.next_offset > one.base_offset:
                continue
            link = 2 if before.next_offset == one.base_offset else -1 if before.end == one.start else 0
            if best[other][0] + link > weight:
                weight, previous = best[other][0] + link, other
        best.append((weight + 4 * one.batches, previous))
    if not best:
        return []
    at = max(
        range(len(best)), key=lambda at: (best[at][0] + (pieces[numbers[at]].next_offset == likely_end), -at)
    )
    chain = []
    while at >= 0:
        chain.append(numbers[at])
        at = best[at][1]
    return chain[::-1]

"""Divide the damaged file of a segment into batches and other pieces, and choose the batches to trust.

A batch is sound if its checksum is right. That says nothing of its base offset, its length, its leader epoch
and its format, which are not covered. So the base offsets of all sound batches are compared: those count that
most of them, in the order of the file, agree with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from headgate.log.header import CRC_END, HEADER_BYTES, BatchHeader, read_header
from headgate.log.walking import find_whole_batch, is_whole_batch, written_end

if TYPE_CHECKING:
    from headgate.log.filesystem import File

_STEP_BYTES: Final = 32 << 20
"""Less than `find_whole_batch` searches."""
_LARGEST_BYTES: Final = 1 << 28
_MOST_FOLLOWED: Final = 1000
"""Damaged batches in a row that are passed by their lengths."""


class Piece(NamedTuple):
    """Bytes of a file. `header` is what is at their beginning; None: fewer bytes than one has."""

    start: int
    end: int
    header: BatchHeader | None
    is_sound: bool

    @property
    def offsets(self) -> int:
        """The number of its offsets, if it is sound."""
        return self.header.last_offset_delta + 1 if self.header is not None else 0


def pieces_in(file: File, size: int, least_offset: int) -> list[Piece]:
    """Return the pieces of a file in order; zeros at its end are none. Raises OSError.

    Where no length leads to a sound batch, the next one from `least_offset` on is searched.
    """
    found: list[Piece] = []
    position = 0
    while position < size:
        if _is_sound(file, position, size):
            header = read_header(file.pread(HEADER_BYTES, position))
            found.append(Piece(position, position + header.size, header, is_sound=True))
            position += header.size
            continue
        if _is_room(file, position, size):
            break
        bad = _followed(file, position, size) or [_searched(file, position, size, least_offset)]
        found += bad
        position = bad[-1].end
    return found


def _is_room(file: File, position: int, size: int) -> bool:
    """Return whether only zeros follow, more than a batch can end with by chance."""
    return size - position >= HEADER_BYTES and written_end(file.pread, position, size) == position


def _is_sound(file: File, position: int, size: int) -> bool:
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return False
    header = read_header(head)
    if not HEADER_BYTES <= header.size <= size - position or header.last_offset_delta < 0:
        return False
    return crc32c(file.pread(header.size - CRC_END, position + CRC_END)) == header.crc


def _followed(file: File, position: int, size: int) -> list[Piece]:
    """Return the damaged batches from a position on whose lengths lead to a sound one, or to the end."""
    found: list[Piece] = []
    while len(found) < _MOST_FOLLOWED:
        head = file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return []
        header = read_header(head)
        end = position + header.size
        if not HEADER_BYTES <= header.size <= size - position:
            return []
        found.append(Piece(position, end, header, is_sound=False))
        if end == size or _is_sound(file, end, size) or _is_room(file, end, size):
            return found
        position = end
    return []


def _searched(file: File, position: int, size: int, least_offset: int) -> Piece:
    """Return the piece up to the next sound batch that another one follows; up to the end without one."""
    start, end = position + 1, size
    while start < size:
        at = find_whole_batch(file.pread, start, size, least_offset)
        if at is None:
            start += _STEP_BYTES
            continue
        header = read_header(file.pread(HEADER_BYTES, at))
        # A record of the bad batch may have a batch in it.
        after = at + header.size
        if is_whole_batch(file.pread, after, size, header.next_offset) or after == size:
            end = at
            break
        start = at + 1
    head = file.pread(HEADER_BYTES, position)
    if end - position < HEADER_BYTES or len(head) < HEADER_BYTES:
        return Piece(position, end, None, is_sound=False)
    header = read_header(head)
    # Its length may be all that is wrong.
    is_sound = (
        end - position <= _LARGEST_BYTES
        and header.last_offset_delta >= 0
        and crc32c(file.pread(end - position - CRC_END, position + CRC_END)) == header.crc
    )
    return Piece(position, end, header, is_sound)


def chain_of(pieces: Sequence[Piece], first: int, limit: int | None) -> list[int]:
    """Return the numbers of the sound batches whose base offsets count: of the longest sequence that grows.

    They are between `first` and `limit`. Of two batches that contradict each other, the one counts that
    continues another without a gap.
    """
    candidates = [
        (number, one.header.base_offset, one.header.next_offset)
        for number, one in enumerate(pieces)
        if one.is_sound
        and one.header is not None
        and first <= one.header.base_offset
        and (limit is None or one.header.next_offset <= limit)
    ]
    ends = sorted({first, *(end for _, _, end in candidates)})
    best = _GreatestBelow(len(ends))
    best.put(bisect_left(ends, first), (0, 1))
    at_end = {first: (0, 1)}
    """The greatest weight of a sequence that ends at an offset, and its last candidate as a negative number.

    1 stands for none. Of two equal weights the one of the earlier candidate is greater.
    """
    before: list[int] = []
    last = (0, 1)
    for at, (_, base, end) in enumerate(candidates):
        weight, previous = best.up_to(bisect_right(ends, base))
        weight += 2
        joined, candidate = at_end.get(base, (-3, 1))
        if joined + 3 >= weight:
            weight, previous = joined + 3, candidate
        before.append(previous)
        at_end[end] = max(at_end.get(end, (-3, 1)), (weight, -at))
        best.put(bisect_left(ends, end), (weight, -at))
        last = max(last, (weight + (end == limit), -at))
    chain = []
    previous = last[1]
    while previous <= 0:
        chain.append(candidates[-previous][0])
        previous = before[-previous]
    return chain[::-1]


class _GreatestBelow:
    """The greatest of the values put at positions up to one: a Fenwick tree."""

    def __init__(self, size: int) -> None:
        self._values = [(-3, 1)] * (size + 1)

    def put(self, position: int, value: tuple[int, int]) -> None:
        at = position + 1
        while at < len(self._values):
            self._values[at] = max(self._values[at], value)
            at += at & -at

    def up_to(self, count: int) -> tuple[int, int]:
        """Return the greatest value at the first `count` positions."""
        found = (-3, 1)
        while count:
            found = max(found, self._values[count])
            count -= count & -count
        return found

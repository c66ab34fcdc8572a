"""Choose the batches of a damaged log whose base offsets are trusted, of all segments together.

Stretches of sound batches (`pieces.py`) can contradict each other. Rules:

1. A segment has the offsets from its name up to the name of the next one, or up to the end of the log as far
   as this is known. A stretch within these bounds is at home.
2. A stretch that is not needs a place that no stretch at home in another segment has, that continues
   another segment, and that is part of the log. A single batch never has one. If most of a segment's batches
   have such a place, its name is wrong.
3. Of those the sequence counts that has most batches, in the order of the file and with rising offsets.
4. Stretches are not divided where they contradict each other, except at copies of the same batches, and in
   compacted logs, where their batches need not be consecutive.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.log.index import MOST_RELATIVE_OFFSET
from headgate.log.pieces import Piece, parts_of
from headgate.log.walking import walk_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headgate.log.filesystem import File

_FOREVER: Final = 1 << 63
_OF_A_BATCH: Final = 4
_OF_A_LINK: Final = 2
"""The weight of two stretches of which one continues the other."""
_OF_A_NEIGHBOUR: Final = 3
"""The same if no byte is between them: of two copies the one at its place counts."""
_OF_A_GAP: Final = -1
"""The weight of offsets that are missing although no byte is."""
_MOST_COMPARED: Final = 10_000
"""Pairs of stretches in which copies are looked for."""
_ALL_BITS: Final = (1 << 64) - 1


@dataclass(slots=True, frozen=True)
class Bounds:
    """What is known of the offsets of a log."""

    start: int
    end: int | None
    """The end offset of the log, if it is known exactly."""
    durable_end: int
    """An end that the log had at some time."""
    compacted_to: int


@dataclass(slots=True)
class SegmentPieces:
    """The pieces of a segment, and which of them count."""

    base_offset: int
    """Its name."""
    size: int
    open_file: Callable[[], File]
    pieces: list[Piece]
    chosen: list[int] = field(default_factory=list)
    """The numbers of the pieces whose base offsets are trusted, in the order of these."""
    start: int = 0
    """Where the segment begins."""

    @property
    def trusted(self) -> list[Piece]:
        """The pieces that count."""
        return [self.pieces[number] for number in self.chosen]


def choose(segments: list[SegmentPieces], bounds: Bounds) -> list[SegmentPieces]:
    """Choose pieces in all segments, which come by their names; return the segments in their right order.

    Raises OSError.
    """
    _divide_copies(segments)
    _divide_gaps(segments, bounds)
    candidates = _Candidates(segments, bounds)
    places = [candidates.place_of(at) for at in range(len(segments))]
    order = sorted(range(len(segments)), key=lambda at: (places[at], at))
    links: list[Link] = []
    numbers: list[tuple[SegmentPieces, int]] = []
    for segment, number in ((segments[at], number) for at in order for number in candidates.allowed[at]):
        piece = segment.pieces[number]
        before = numbers[-1] if numbers else None
        follows = before is not None and before[0] is segment and before[1] == number - 1
        is_adjacent = follows and piece.base_offset > bounds.compacted_to
        links.append(
            Link(piece.base_offset, piece.next_offset, _OF_A_BATCH * piece.batches, is_adjacent=is_adjacent)
        )
        numbers.append((segment, number))
    for at in heaviest_chain(links, bounds.start, bounds.durable_end):
        segment, number = numbers[at]
        segment.chosen.append(number)
    ordered = [segments[at] for at in order]
    if ordered:
        _remove_leaps(ordered, bounds)
    ends = [one.trusted[0].base_offset if one.chosen else one.base_offset for one in ordered]
    for segment, end in zip(ordered, [*ends[1:], bounds.durable_end], strict=False):
        _add_displaced(segment, bounds.compacted_to)
        _remove_shifted(segment, end, bounds.compacted_to)
    _set_starts(
        ordered, {segments[at].base_offset: places[at] for at in order}, bounds.start, bounds.compacted_to
    )
    return ordered


class Link(NamedTuple):
    """A stretch as a part of a chain."""

    first: int
    end: int
    weight: int
    is_adjacent: bool = False
    """Whether it should continue the one before it, as no byte is between them."""


def heaviest_chain(links: Sequence[Link], start: int = -1, likely_end: int = -1) -> list[int]:
    """Return the numbers of the links of the heaviest chain, each of which begins at or after the end before.

    One that begins at `start` or ends at `likely_end` is preferred.
    """
    ends = sorted({one.end for one in links})
    best: list[tuple[int, int]] = []
    """For each the weight of the best chain that ends with it, and the one before it; -1: none."""
    at_end: dict[int, int] = {}
    tree = [(0, -1)] * (len(ends) + 1)
    """The best of the first ends, as a binary indexed tree. The newest link is not in it."""
    for at, one in enumerate(links):
        weight, previous = int(one.first == start), -1
        place = bisect_right(ends, one.first)
        while place:
            weight, previous = max((weight, previous), tree[place])
            place &= place - 1
        if at and links[at - 1].end <= one.first:
            of_place = 0
            if one.is_adjacent:
                of_place = _OF_A_GAP if links[at - 1].end < one.first else _OF_A_NEIGHBOUR
            weight, previous = max((weight, previous), (best[-1][0] + of_place, at - 1))
        linked = at_end.get(one.first)
        if linked is not None:
            weight, previous = max((weight, previous), (best[linked][0] + _OF_A_LINK, linked))
        if at:
            place = bisect_left(ends, links[at - 1].end) + 1
            while place < len(tree):
                tree[place] = max(tree[place], (best[-1][0], at - 1))
                place += place & -place
        best.append((weight + one.weight, previous))
        if one.end not in at_end or best[at_end[one.end]] < best[at]:
            at_end[one.end] = at
    if not best:
        return []
    at = max(range(len(best)), key=lambda at: (best[at][0] + (links[at].end == likely_end), -at))
    chain = []
    while at >= 0:
        chain.append(at)
        at = best[at][1]
    return chain[::-1]


def is_one_bit(one: int, other: int) -> bool:
    """Return whether two values differ in one bit."""
    return ((one ^ other) & _ALL_BITS).bit_count() == 1


def originals_of_copies(segments: Sequence[SegmentPieces]) -> set[tuple[int, int]]:
    """Return base offset and checksum of the batches that count, at the base offsets that also others have.

    Raises OSError.
    """
    stated: set[int] = set()
    for segment in segments:
        chosen = set(segment.chosen)
        left = (one for number, one in enumerate(segment.pieces) if number not in chosen)
        stated.update(one.base_offset for one in left if one.is_sound)
    others = sorted(stated)
    found: set[tuple[int, int]] = set()
    for segment in segments:
        for number in segment.chosen:
            one = segment.pieces[number]
            first = bisect_left(others, one.base_offset)
            if first < len(others) and others[first] < one.next_offset:
                wanted = set(others[first : bisect_left(others, one.next_offset)])
                checksums = _checksums(segment, number, min(wanted), max(wanted) + 1)
                found.update((base_offset, crc) for base_offset, _, crc in checksums if base_offset in wanted)
    return found


# Dividing.


def _divide(segment: SegmentPieces, cuts: dict[int, set[int]]) -> None:
    """Divide stretches of a segment, by their numbers, at some offsets."""
    if not cuts:
        return
    file = segment.open_file()
    try:
        segment.pieces = [
            part
            for number, one in enumerate(segment.pieces)
            for part in (parts_of(file, one, cuts[number]) if number in cuts else [one])
        ]
    finally:
        file.close()


def _divide_copies(segments: list[SegmentPieces]) -> None:
    """Divide the stretches that have a part in common around this part, so that it counts once."""
    stretches = sorted(
        (one.base_offset, at, number)
        for at, segment in enumerate(segments)
        for number, one in enumerate(segment.pieces)
        if one.is_sound
    )
    cuts: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    active: list[tuple[int, int]] = []
    compared = 0
    for base_offset, at, number in stretches:
        active = [(x, y) for x, y in active if segments[x].pieces[y].next_offset > base_offset]
        end = segments[at].pieces[number].next_offset
        for x, y in active:
            until = min(end, segments[x].pieces[y].next_offset)
            compared += 1
            if compared > _MOST_COMPARED:
                return
            if _are_alike(segments[x], y, segments[at], number, base_offset, until):
                for which, one in ((x, y), (at, number)):
                    if segments[which].pieces[one].batches > 1:
                        cuts[which][one] |= {base_offset, until}
        active.append((at, number))
    for at, of_segment in cuts.items():
        _divide(segments[at], of_segment)


def _are_alike(one: SegmentPieces, number: int, other: SegmentPieces, its: int, first: int, end: int) -> bool:
    """Return whether two stretches have the same batches between two offsets."""
    batches = _checksums(one, number, first, end), _checksums(other, its, first, end)
    try:
        return all(a == b for a, b in zip(*batches, strict=True))
    except ValueError:
        return False


def _checksums(segment: SegmentPieces, number: int, first: int, end: int) -> Iterator[tuple[int, int, int]]:
    piece = segment.pieces[number]
    if piece.batches == 1 and piece.header is not None:
        yield piece.header.base_offset, piece.header.next_offset, piece.header.crc
        return
    file = segment.open_file()
    try:
        for _, header, _ in walk_batches(file, piece.start, piece.end):
            if header.base_offset >= end:
                return
            if header.next_offset > first:
                yield header.base_offset, header.next_offset, header.crc
    finally:
        file.close()


def _divide_gaps(segments: list[SegmentPieces], bounds: Bounds) -> None:
    """Divide the stretches that have gaps where other stretches, segments or the log begin or end."""
    sound = [one for segment in segments for one in segment.pieces if one.is_sound]
    if not any(one.has_gaps for one in sound):
        return
    cuts = {segment.base_offset for segment in segments} | {bounds.durable_end, bounds.start}
    cuts |= {one.base_offset for one in sound} | {one.next_offset for one in sound}
    ordered = sorted(cuts)
    for segment in segments:
        of_segment = {}
        for number, one in enumerate(segment.pieces):
            if one.has_gaps:
                low, high = bisect_right(ordered, one.base_offset), bisect_left(ordered, one.next_offset)
                if low < high:
                    of_segment[number] = set(ordered[low:high])
        _divide(segment, of_segment)


# What has weight.


class _Candidates:
    """The stretches of each segment that can count: by the segment's number, the numbers of its pieces."""

    def __init__(self, segments: list[SegmentPieces], bounds: Bounds) -> None:
        self._segments = segments
        self._bounds = bounds
        names = [one.base_offset for one in segments]
        highs = [*names[1:], _FOREVER if bounds.end is None else bounds.end]
        self._limits = [
            (low, min(high, low + MOST_RELATIVE_OFFSET + 1)) for low, high in zip(names, highs, strict=False)
        ]
        self._homes: list[list[tuple[int, int]]] = [
            sorted((one.base_offset, one.next_offset) for one in segment.pieces if self._is_at_home(at, one))
            for at, segment in enumerate(segments)
        ]
        self._begins: dict[int, set[int]] = defaultdict(set)
        self._ends: dict[int, set[int]] = defaultdict(set)
        for at, segment in enumerate(segments):
            for one in (one for one in segment.pieces if one.is_sound):
                self._begins[one.base_offset].add(at)
                self._ends[one.next_offset].add(at)
        self.allowed = [
            [
                number
                for number, one in enumerate(segment.pieces)
                if self._is_at_home(at, one) or self._has_place(at, one)
            ]
            for at, segment in enumerate(segments)
        ]

    def place_of(self, at: int) -> int:
        """Return where a segment belongs: where most of its batches do."""
        segment = self._segments[at]
        away = [
            segment.pieces[number]
            for number in self.allowed[at]
            if not self._overlaps(*self._limits[at], segment.pieces[number])
        ]
        count = sum(segment.pieces[number].batches for number in self.allowed[at])
        if 2 * sum(one.batches for one in away) <= count:
            return segment.base_offset
        return max(away, key=lambda one: one.batches).base_offset

    def _is_at_home(self, at: int, piece: Piece) -> bool:
        low, high = self._limits[at]
        return piece.is_sound and low <= piece.base_offset and piece.next_offset <= high

    @staticmethod
    def _overlaps(low: int, high: int, piece: Piece) -> bool:
        return piece.base_offset < high and low < piece.next_offset

    def _has_place(self, at: int, piece: Piece) -> bool:
        """Return whether a stretch that is not at home can be right."""
        bounds = self._bounds
        if piece.batches < 2:
            return False
        is_outside = bounds.end is not None and piece.next_offset > bounds.end
        is_before = piece.base_offset < bounds.start and (at > 0 or piece.next_offset <= bounds.start)
        if is_outside or is_before:
            return False
        for other, homes in enumerate(self._homes):
            low, high = self._limits[other]
            if other != at and homes and self._overlaps(low, high, piece):
                first = bisect_left(homes, (piece.base_offset, 0))
                if any(self._overlaps(*one, piece) for one in homes[max(first - 1, 0) : first + 1]):
                    return False
        if self._overlaps(*self._limits[at], piece):
            return True
        if piece.next_offset <= min(bounds.compacted_to, bounds.durable_end):
            return True
        begins = piece.base_offset == bounds.start or self._ends[piece.base_offset] - {at}
        return bool(
            begins or piece.next_offset == bounds.durable_end or self._begins[piece.next_offset] - {at}
        )


# What the chain does not see.


def _remove_leaps(segments: list[SegmentPieces], bounds: Bounds) -> None:
    """Remove from the last segment what is behind the durable end and misses more offsets than bytes."""
    last = segments[-1]
    trusted = [one for segment in segments[:-1] for one in segment.trusted]
    end = max(last.base_offset, trusted[-1].next_offset if trusted else bounds.start)
    position = 0
    for at, one in enumerate(last.trusted):
        is_gap = one.base_offset > max(end, bounds.compacted_to) and one.next_offset > bounds.durable_end
        if is_gap and one.base_offset - end > one.start - position:
            del last.chosen[at:]
            return
        end, position = one.next_offset, one.end


def _remove_shifted(segment: SegmentPieces, following: int, compacted_to: int) -> None:
    """Remove single batches that miss offsets to one neighbour although no byte is between them, and to the
    other one bytes, but no offset: their base offsets are wrong. The segment ends before `following`.
    """
    kept = []
    for at, number in enumerate(segment.chosen):
        one = segment.pieces[number]
        offset, position = segment.base_offset, 0
        if at:
            before = segment.pieces[segment.chosen[at - 1]]
            offset, position = before.next_offset, before.end
        next_offset, next_position = following, segment.size
        if at + 1 < len(segment.chosen):
            after = segment.pieces[segment.chosen[at + 1]]
            next_offset, next_position = after.base_offset, after.start
        is_early = offset == one.base_offset and position < one.start
        is_early &= one.next_offset < next_offset and one.end == next_position
        is_late = offset < one.base_offset and position == one.start
        is_late &= one.next_offset == next_offset and one.end < next_position
        if one.batches > 1 or offset < compacted_to or not (is_early or is_late):
            kept.append(number)
    segment.chosen = kept


def _add_displaced(segment: SegmentPieces, compacted_to: int) -> None:
    """Add stretches that were written at another position than their offsets say: nothing is missing where
    they are, and no byte where they should be.
    """
    chosen = segment.chosen
    for number, one in enumerate(segment.pieces):
        if not one.is_sound or number in chosen or one.base_offset < compacted_to:
            continue
        in_file = sorted(chosen)
        at = bisect_left(in_file, number)
        before, after = in_file[at - 1 : at], in_file[at : at + 1]
        if before and after:
            if segment.pieces[before[0]].next_offset != segment.pieces[after[0]].base_offset:
                continue
        elif not before or at < len(in_file):
            continue
        bases = [segment.pieces[other].base_offset for other in chosen]
        place = bisect_right(bases, one.base_offset)
        if 0 < place < len(chosen):
            left, right = segment.pieces[chosen[place - 1]], segment.pieces[chosen[place]]
            is_free = left.next_offset <= one.base_offset and one.next_offset <= right.base_offset
            if is_free and left.end == right.start:
                chosen.insert(place, number)


def _set_starts(segments: list[SegmentPieces], places: dict[int, int], start: int, compacted_to: int) -> None:
    """Set where each segment begins: as its name says, unless its batches say something else."""
    end = start
    for at, segment in enumerate(segments):
        name = segment.base_offset
        if not segment.chosen:
            following = next((one for one in segments[at + 1 :] if one.chosen), None)
            segment.start = max(name, end)
            if following is not None:
                segment.start = min(segment.start, following.trusted[0].base_offset)
            continue
        first = segment.pieces[segment.chosen[0]].base_offset
        if not at and start < name <= min(first, compacted_to) and is_one_bit(start, name):
            segment.start = start  # in a compacted log its first offset does not tell
        elif end <= name <= first and places[name] == name:
            segment.start = name
        else:
            before = sum(one.offsets for one in segment.pieces[: min(segment.chosen)])
            segment.start = max(first - before, min(end, first))
        end = segment.trusted[-1].next_offset

"""Names interned to small integers, their text in one arena instead of a `str` each.

A name costs its UTF-8 bytes, four bytes for where they end, and six to eight in the index (R3.6). Ids are
given out in order from 0 and stay what they are; `retain` is the one way to forget names, and it numbers them
anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from zlib import crc32

_SEGMENTS = 32
"""The index grows a segment at a time, so that no single name has to wait for all of them."""
_SMALLEST_INDEX = 8
_HIGHEST_LOAD = 0.7
_GROWTH = 1.4
_FREE = 0xFFFFFFFF
_CACHED_NAMES = 512


class Names:
    """A set of names, each with an id. Names are bytes, so that a caller can mark some of them its way."""

    __slots__ = ("_arena", "_cache", "_counts", "_ends", "_indexes")

    def __init__(self) -> None:
        self._arena = bytearray()
        self._ends = array("I", (0,))
        """Name `i` is `arena[ends[i]:ends[i + 1]]`."""
        self._indexes = [array("I", (_FREE,)) * _SMALLEST_INDEX for _ in range(_SEGMENTS)]
        """Open addressing: the slot of a name's hash, or one after it, holds its id."""
        self._counts = [0] * _SEGMENTS
        self._cache: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def text_bytes(self) -> int:
        """How much text is held."""
        return len(self._arena)

    def text(self, name_id: int) -> bytes:
        """The name with this id."""
        return bytes(self._arena[self._ends[name_id] : self._ends[name_id + 1]])

    def find(self, name: bytes) -> int | None:
        """The id of a name, or None."""
        name_id = self._cache.get(name)
        if name_id is not None:
            return name_id
        _, _, name_id = self._probe(name)
        if name_id == _FREE:
            return None
        self._remember(name, name_id)
        return name_id

    def intern(self, name: bytes) -> int:
        """The id of a name, which is taken in if it is new."""
        name_id = self._cache.get(name)
        if name_id is not None:
            return name_id
        segment, slot, name_id = self._probe(name)
        if name_id == _FREE:
            name_id = len(self)
            self._arena += name
            self._ends.append(len(self._arena))
            index = self._indexes[segment]
            index[slot] = name_id
            self._counts[segment] += 1
            if self._counts[segment] > _HIGHEST_LOAD * len(index):
                self._build_segment(segment, [held for held in index if held != _FREE])
        self._remember(name, name_id)
        return name_id

    def retain(self, name_ids: Iterable[int]) -> None:
        """Keep these names alone, numbered from 0 in the order given."""
        arena, ends = bytearray(), array("I", (0,))
        for name_id in name_ids:
            arena += self._arena[self._ends[name_id] : self._ends[name_id + 1]]
            ends.append(len(arena))
        self._arena, self._ends = arena, ends
        self._cache.clear()
        members: list[list[int]] = [[] for _ in range(_SEGMENTS)]
        for name_id in range(len(self)):
            members[crc32(self.text(name_id)) % _SEGMENTS].append(name_id)
        for segment, held in enumerate(members):
            self._build_segment(segment, held)

    def _remember(self, name: bytes, name_id: int) -> None:
        if len(self._cache) >= _CACHED_NAMES:
            self._cache.clear()
        self._cache[name] = name_id

    def _probe(self, name: bytes) -> tuple[int, int, int]:
        """The segment and the slot where the name is or would go, and its id or _FREE."""
        ends, arena = self._ends, self._arena
        hashed, size = crc32(name), len(name)
        segment = hashed % _SEGMENTS
        index = self._indexes[segment]
        slots = len(index)
        slot = (hashed * slots) >> 32
        while True:
            name_id = index[slot]
            if name_id == _FREE:
                return segment, slot, _FREE
            start = ends[name_id]
            if ends[name_id + 1] - start == size and arena.startswith(name, start):
                return segment, slot, name_id
            slot += 1
            if slot == slots:
                slot = 0

    def _build_segment(self, segment: int, name_ids: list[int]) -> None:
        slots = max(_SMALLEST_INDEX, int(len(name_ids) * _GROWTH / _HIGHEST_LOAD))
        index = array("I", (_FREE,)) * slots
        ends = self._ends
        with memoryview(self._arena) as arena:
            for name_id in name_ids:
                slot = (crc32(arena[ends[name_id] : ends[name_id + 1]]) * slots) >> 32
                while index[slot] != _FREE:
                    slot += 1
                    if slot == slots:
                        slot = 0
                index[slot] = name_id
        self._indexes[segment] = index
        self._counts[segment] = len(name_ids)

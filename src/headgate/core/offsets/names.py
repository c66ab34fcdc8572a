"""Names interned to small integers, their text in one arena instead of a `str` each.

A name costs its UTF-8 bytes, four bytes for where they end, and six to eight in the index (R3.6). Ids are
given out in order from 0 and stay what they are; `retain` is the one way to forget names, and it numbers them
anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_SEGMENTS = 128
"""The index grows a segment at a time, so that no single name has to wait for all of them."""
_SMALLEST_INDEX = 8
_HIGHEST_LOAD = 0.7
_GROWTH = 1.15
_GROWTH_OF_FEW = 1.6
_FEWEST_HASHED_TOGETHER = 128
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

    def retain(self, name_ids: NDArray[np.int64]) -> None:
        """Keep these names alone, numbered from 0 in the order given."""
        arena, ends = bytearray(), array("I", (0,))
        old_ends = np.frombuffer(self._ends, np.uint32)
        for first in range(0, len(name_ids), _HASHED_AT_ONCE):
            held = name_ids[first : first + _HASHED_AT_ONCE]
            starts = old_ends[held].astype(np.int64)
            sizes = old_ends[held + 1] - starts
            new_ends = np.cumsum(sizes)
            # Where each byte comes from: as far behind its name's start as it is to be in the new text.
            places = np.repeat(starts - (new_ends - sizes), sizes) + np.arange(int(new_ends[-1]))
            ends.frombytes((new_ends + len(arena)).astype(np.uint32).tobytes())
            if len(places):
                arena += np.frombuffer(self._arena, np.uint8)[places].tobytes()
        del old_ends
        self._arena, self._ends = arena, ends
        self._cache.clear()
        self._build()

    def between(self, first: int, end: int) -> tuple[NDArray[np.uint32], bytes]:
        """The names with ids from `first` to before `end`: how long each is, and their text."""
        ends = np.frombuffer(self._ends, np.uint32)[first : end + 1]
        return np.diff(ends), bytes(self._arena[int(ends[0]) : int(ends[-1])])

    def restore(self, sizes: NDArray[np.uint32], text: bytes) -> None:
        """Take names in behind those there are, all of them new; `restored` must follow the last of them."""
        ends = np.cumsum(sizes, dtype=np.uint64) + np.uint64(len(self._arena))
        self._arena += text
        self._ends.frombytes(ends.astype(np.uint32).tobytes())

    def restored(self) -> None:
        """All names are there: from here on they can be found."""
        self._build()

    def _build(self) -> None:
        hashes = _crc32_each(self._arena, self._ends, np.arange(len(self)))
        segments = hashes % np.uint32(_SEGMENTS)
        for segment in range(_SEGMENTS):
            held = np.flatnonzero(segments == segment)
            self._place(segment, held, hashes[held])

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

    def _build_segment(self, segment: int, name_ids: Sequence[int]) -> None:
        held = np.array(name_ids, np.int64)
        if len(held) < _FEWEST_HASHED_TOGETHER:
            hashes = np.array([crc32(self.text(name_id)) for name_id in name_ids], np.uint32)
        else:
            hashes = _crc32_each(self._arena, self._ends, held)
        self._place(segment, held, hashes)

    def _place(self, segment: int, name_ids: NDArray[np.int64], hashes: NDArray[np.uint32]) -> None:
        """Make a segment of the index anew, for these names with these hashes."""
        growth = _GROWTH if len(name_ids) >= _FEWEST_HASHED_TOGETHER else _GROWTH_OF_FEW
        slots = max(_SMALLEST_INDEX, int(len(name_ids) * growth / _HIGHEST_LOAD))
        index = array("I", (_FREE,)) * slots
        homes = (hashes.astype(np.uint64) * np.uint64(slots) >> np.uint64(32)).astype(np.int64)
        order = np.argsort(homes, kind="stable")
        name_ids, homes = name_ids[order], homes[order]
        # In the order of their homes each name goes to its home or behind the name before it.
        ranks = np.arange(len(name_ids))
        places = np.maximum.accumulate(homes - ranks) + ranks
        fits = places < slots
        np.frombuffer(index, np.uint32)[places[fits]] = name_ids[fits]
        for name_id in name_ids[~fits].tolist():  # past the end they go on at the beginning
            slot = 0
            while index[slot] != _FREE:
                slot += 1
            index[slot] = name_id
        self._indexes[segment] = index
        self._counts[segment] = len(name_ids)


def _crc_table() -> NDArray[np.uint32]:
    # What one more byte does to a register of zeros; the register of no bytes at all is all ones.
    return np.array([crc32(bytes((byte,)), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)], np.uint32)


_CRC_TABLE = _crc_table()
_HASHED_AT_ONCE = 1 << 16


def _crc32_each(arena: bytearray, ends: array[int], name_ids: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The CRC of each of these names, as `zlib.crc32` has it."""
    hashes = np.empty(len(name_ids), np.uint32)
    limits = np.frombuffer(ends, np.uint32)
    octets = np.frombuffer(arena, np.uint8) if arena else np.empty(0, np.uint8)
    for first in range(0, len(name_ids), _HASHED_AT_ONCE):
        held = name_ids[first : first + _HASHED_AT_ONCE]
        starts = limits[held].astype(np.int64)
        sizes = limits[held + 1] - starts
        order = np.argsort(-sizes, kind="stable")  # the longest first: those with a byte left come first
        starts, sizes = starts[order], sizes[order]
        register = np.full(len(held), 0xFFFFFFFF, np.uint32)
        for at in range(int(sizes[0])):
            count = int(np.searchsorted(-sizes, -at, "left"))
            low = (register[:count] ^ octets[starts[:count] + at]) & np.uint32(0xFF)
            register[:count] = _CRC_TABLE[low] ^ (register[:count] >> np.uint32(8))
        hashes[first + order] = register ^ np.uint32(0xFFFFFFFF)
    return hashes

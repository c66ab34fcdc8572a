"""Names interned to small integers, with their text in one arena instead of a `str` each.

A name takes its UTF-8 bytes and an end byte, four bytes for its position, and five to seven in the index
(R3.6). A name keeps its id until it is released; the id is then given to another name. The text of released
names is removed a few names at a time (`tidy`): no step here works through all names.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_SEGMENTS = 128
"""The index grows one segment at a time, so that no request waits for all of it."""
_SMALLEST_INDEX = 8
_HIGHEST_LOAD = 0.77
_GROWTH = 1.12
_GROWTH_OF_FEW = 1.6
_FEWEST_HASHED_TOGETHER = 128
_HASHED_AT_ONCE = 1 << 13
_FREE = 0xFFFFFFFF
_RELEASED = 0xFFFFFFFE
"""A slot whose name was released; searches continue past it."""
_NOWHERE = 0xFFFFFFFF
"""The position of an unused id."""
_END = b"\xfe"
"""Ends every name; never part of UTF-8, nor of the marks that a caller may use."""
_CACHED_NAMES = 256
_LONGEST_TOGETHER = 256
"""Names up to this many bytes are hashed together; longer names are rare."""
_LEAST_UNTIDY = 1 << 12
_UNTIDY_SHARE = 4

Ids = NDArray[np.int64]


class Names:
    """A set of names with ids. Names are bytes, so that a caller can mark some of them."""

    __slots__ = (
        "_arena",
        "_cache",
        "_counts",
        "_free",
        "_gone",
        "_indexes",
        "_places",
        "_read",
        "_released",
        "_write",
    )

    def __init__(self) -> None:
        self._arena = bytearray()
        self._places = array("I")
        """The position of each id's name in the arena."""
        self._free = array("I")
        """Unused ids."""
        self._indexes = [array("I", (_FREE,)) * _SMALLEST_INDEX for _ in range(_SEGMENTS)]
        """Open addressing: the slot of a name's hash, or a later one, holds its id."""
        self._counts = [0] * _SEGMENTS
        """Number of slots in use, per segment."""
        self._released = [0] * _SEGMENTS
        """Number of these whose names were released."""
        self._cache: dict[bytes, int] = {}
        self._gone = 0
        """Number of bytes in the arena of released names."""
        self._read = self._write = 0
        """During compaction: text before `write` is moved already, text from `read` on is to be moved."""

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._places) - len(self._free)

    @property
    def id_count(self) -> int:
        """Return the upper limit of all ids that were ever in use."""
        return len(self._places)

    def text(self, name_id: int) -> bytes:
        """Return the name with this id. Raises LookupError if the id is unused."""
        place = self._places[name_id]
        if place == _NOWHERE:
            raise LookupError(f"{name_id} is the id of no name")
        return bytes(self._arena[place : self._arena.index(_END, place)])

    def find(self, name: bytes) -> int | None:
        """Return the id of a name, or None."""
        name_id = self._cache.get(name)
        if name_id is not None:
            return name_id
        _, _, name_id = self._probe(name)
        if name_id == _FREE:
            return None
        self._remember(name, name_id)
        return name_id

    def intern(self, name: bytes) -> int:
        """Return the id of a name; add the name if it is new."""
        name_id = self._cache.get(name)
        if name_id is not None:
            return name_id
        segment, slot, name_id = self._probe(name)
        if name_id == _FREE:
            return self._take_in(name, segment, slot)
        self._remember(name, name_id)
        return name_id

    def _take_in(self, name: bytes, segment: int, slot: int) -> int:
        place = len(self._arena)
        if self._free:
            name_id = self._free.pop()
            self._places[name_id] = place
        else:
            name_id = len(self._places)
            self._places.append(place)
        self._arena += name + _END
        index = self._indexes[segment]
        index[slot] = name_id
        self._counts[segment] += 1
        if self._counts[segment] > _HIGHEST_LOAD * len(index):
            self._build_segment(segment)
        return name_id

    def release(self, name_ids: Iterable[int]) -> None:
        """Release these names; their ids may be reused from now on."""
        for name_id in name_ids:
            name = self.text(name_id)
            segment, slot, _ = self._probe(name)
            index = self._indexes[segment]
            index[slot] = _RELEASED
            self._released[segment] += 1
            self._cache.pop(name, None)
            self._places[name_id] = _NOWHERE
            self._free.append(name_id)
            self._gone += len(name) + len(_END)
            if 2 * self._released[segment] > len(index) > _SMALLEST_INDEX:
                self._build_segment(segment)

    def tidy(self, count: int) -> bool:
        """Compact the text by `count` names; return whether more is to be done."""
        if not self._read and self._gone < _LEAST_UNTIDY + len(self._arena) // _UNTIDY_SHARE:
            return False
        arena, places = self._arena, self._places
        for _ in range(count):
            if self._read == len(arena):
                self._gone -= self._read - self._write
                del arena[self._write :]
                self._read = self._write = 0
                return False
            start, end = self._read, arena.index(_END, self._read) + len(_END)
            name = bytes(arena[start : end - len(_END)])
            _, _, name_id = self._probe(name)
            if name_id != _FREE and places[name_id] == start:
                arena[self._write : self._write + end - start] = arena[start:end]
                places[name_id] = self._write
                self._write += end - start
            self._read = end
        return True

    # --- images ---

    def parts(self, part_bytes: int) -> Iterator[tuple[NDArray[np.uint32], bytes]]:
        """Yield all names in parts: their ids, and their text, each with its end byte.

        Names may be added meanwhile, but no name may be released, and `tidy` may not be called.
        """
        end = len(self._arena)
        for first in range(0, end, part_bytes):
            places = np.frombuffer(self._places, np.uint32)
            ids = np.flatnonzero((places >= first) & (places < min(first + part_bytes, end)))
            ids = ids[np.argsort(places[ids])]
            starts = places[ids].astype(np.int64)
            if not len(ids):
                continue
            last_end = self._arena.index(_END, int(starts[-1])) + len(_END)
            octets = np.frombuffer(self._arena, np.uint8)[first:last_end]
            ends = np.flatnonzero(octets == _END[0])
            starts -= first
            sizes = ends[np.searchsorted(ends, starts)] + len(_END) - starts
            text = octets[_spans(starts, sizes)].tobytes()
            del octets, places
            yield ids.astype(np.uint32), text

    def restore(self, ids: NDArray[np.uint32], text: bytes) -> None:
        """Add the names of one of `parts`; call `restored` after the last one. Raises ValueError."""
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _END[0])
        if len(ends) != len(ids) or (len(ids) and int(ends[-1]) != len(text) - 1):
            raise ValueError("there are not as many names as ids")
        if len(ids) and int(ids.max()) >= len(self._places):
            self._places.extend(array("I", (_NOWHERE,)) * (int(ids.max()) + 1 - len(self._places)))
        places = np.frombuffer(self._places, np.uint32)
        places[ids] = np.concatenate((np.zeros(1, np.int64), ends + len(_END)))[:-1] + len(self._arena)
        self._arena += text

    def restored(self) -> Iterator[None]:
        """Build the index of the restored names, in steps."""
        places = np.frombuffer(self._places, np.uint32)
        self._free.frombytes(np.flatnonzero(places == _NOWHERE).astype(np.uint32)[::-1].tobytes())
        held = np.flatnonzero(places != _NOWHERE)
        hashes = np.empty(len(held), np.uint32)
        for first in range(0, len(held), _HASHED_AT_ONCE):
            some = slice(first, first + _HASHED_AT_ONCE)
            hashes[some] = _crc32_each(self._arena, places[held[some]])
            yield
        segments = (hashes % np.uint32(_SEGMENTS)).astype(np.uint8)
        for segment in range(_SEGMENTS):
            its = np.flatnonzero(segments == segment)
            self._place(segment, held[its], hashes[its])
            if not (segment + 1) % 4:
                yield

    def is_named(self) -> NDArray[np.bool_]:
        """Return for each id whether it has a name."""
        is_named: NDArray[np.bool_] = np.frombuffer(self._places, np.uint32) != _NOWHERE
        return is_named

    # --- the index ---

    def _remember(self, name: bytes, name_id: int) -> None:
        if len(self._cache) >= _CACHED_NAMES:
            self._cache.clear()
        self._cache[name] = name_id

    def _probe(self, name: bytes) -> tuple[int, int, int]:
        """Return the segment and slot of a name or of its insertion, and its id or _FREE."""
        places, arena = self._places, self._arena
        hashed, text = crc32(name), name + _END
        segment = hashed % _SEGMENTS
        index = self._indexes[segment]
        slots = len(index)
        slot = (hashed * slots) >> 32
        while True:
            name_id = index[slot]
            if name_id < _RELEASED:
                if arena.startswith(text, places[name_id]):
                    return segment, slot, name_id
            elif name_id == _FREE:
                return segment, slot, _FREE
            slot += 1
            if slot == slots:
                slot = 0

    def _build_segment(self, segment: int) -> None:
        name_ids = [name_id for name_id in self._indexes[segment] if name_id < _RELEASED]
        held = np.array(name_ids, np.int64)
        if len(held) < _FEWEST_HASHED_TOGETHER:
            hashes = np.array([crc32(self.text(name_id)) for name_id in name_ids], np.uint32)
        else:
            hashes = _crc32_each(self._arena, np.frombuffer(self._places, np.uint32)[held])
        self._place(segment, held, hashes)

    def _place(self, segment: int, name_ids: Ids, hashes: NDArray[np.uint32]) -> None:
        """Rebuild a segment of the index for these names with these hashes."""
        slots = _slots_for(len(name_ids), segment)
        index = array("I", (_FREE,)) * slots
        homes = (hashes.astype(np.uint64) * np.uint64(slots) >> np.uint64(32)).astype(np.int64)
        order = np.argsort(homes, kind="stable")
        name_ids, homes = name_ids[order], homes[order]
        # In the order of their home slots, each name goes to its home slot or after the name before it.
        ranks = np.arange(len(name_ids))
        places = np.maximum.accumulate(homes - ranks) + ranks
        fits = places < slots
        np.frombuffer(index, np.uint32)[places[fits]] = name_ids[fits]
        for name_id in name_ids[~fits].tolist():  # searches past the end continue at the start
            slot = 0
            while index[slot] != _FREE:
                slot += 1
            index[slot] = name_id
        self._indexes[segment] = index
        self._counts[segment], self._released[segment] = len(name_ids), 0


def _slots_for(count: int, segment: int) -> int:
    """Return the number of slots of a segment for this many names, with room for more.

    Each segment grows at its own sizes, so that segments do not all grow at the same time.
    """
    growth = _GROWTH if count >= _FEWEST_HASHED_TOGETHER else _GROWTH_OF_FEW
    needed, phase = (count + 1) / _HIGHEST_LOAD, segment / _SEGMENTS
    if needed <= _SMALLEST_INDEX:
        return _SMALLEST_INDEX
    steps = math.floor(math.log(needed, growth) - phase) + 1
    slots: float = growth ** (steps + phase)
    return math.ceil(slots)


def _spans(starts: Ids, sizes: Ids) -> Ids:
    """Return the numbers from each start, as many as its size, concatenated."""
    ends = np.cumsum(sizes)
    spans: Ids = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(ends[-1]))
    return spans


def _crc_table() -> NDArray[np.uint32]:
    # The change that a byte makes to a register of zeros; the initial register is all ones.
    return np.array([crc32(bytes((byte,)), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)], np.uint32)


_CRC_TABLE = _crc_table()


def _crc32_each(arena: bytearray, places: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the CRC of each name at these positions, equal to `zlib.crc32`."""
    octets = np.frombuffer(arena, np.uint8)
    hashes = np.empty(len(places), np.uint32)
    register = np.full(len(places), 0xFFFFFFFF, np.uint32)
    at, pending = places.astype(np.int64), np.arange(len(places))
    for _ in range(_LONGEST_TOGETHER):
        byte = octets[at]
        is_end = byte == _END[0]
        if is_end.any():
            hashes[pending[is_end]] = register[is_end] ^ np.uint32(0xFFFFFFFF)
            goes_on = ~is_end
            pending, at, byte, register = pending[goes_on], at[goes_on], byte[goes_on], register[goes_on]
            if not len(pending):
                break
        register = _CRC_TABLE[(register ^ byte) & np.uint32(0xFF)] ^ (register >> np.uint32(8))
        at += 1
    for one, place, begun in zip(pending.tolist(), at.tolist(), register.tolist(), strict=True):
        hashes[one] = crc32(arena[place : arena.index(_END, place)], begun ^ 0xFFFFFFFF)
    return hashes

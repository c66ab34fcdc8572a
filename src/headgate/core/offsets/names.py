"""Names interned to small integers, their text in one arena instead of a `str` each.

A name costs its UTF-8 bytes and one that ends it, four bytes for where it stands, and five to seven in the
index (R3.6). An id stays what it is until its name is released, and is then given to another name. What text
is left of released names is moved out of between the others a few names at a time (`tidy`): nothing here ever
works through all names at once.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_SEGMENTS = 128
"""The index grows a segment at a time, so that no single name has to wait for all of them."""
_SMALLEST_INDEX = 8
_HIGHEST_LOAD = 0.77
_GROWTH = 1.12
_GROWTH_OF_FEW = 1.6
_FEWEST_HASHED_TOGETHER = 128
_HASHED_AT_ONCE = 1 << 13
_FREE = 0xFFFFFFFF
_RELEASED = 0xFFFFFFFE
"""A slot whose name is gone, but which searches pass through."""
_NOWHERE = 0xFFFFFFFF
"""The place of an id that is no name's."""
_END = b"\xfe"
"""Never part of UTF-8, nor of the marks a caller may use: stands behind every name."""
_CACHED_NAMES = 256
_LONGEST_TOGETHER = 256
"""Bytes that names are hashed by together; what is longer is rare."""
_LEAST_UNTIDY = 1 << 12
_UNTIDY_SHARE = 4

Ids = NDArray[np.int64]


class Names:
    """A set of names, each with an id. Names are bytes, so that a caller can mark some of them its way."""

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
        """Where in the arena the name with an id begins."""
        self._free = array("I")
        """Ids that are no name's."""
        self._indexes = [array("I", (_FREE,)) * _SMALLEST_INDEX for _ in range(_SEGMENTS)]
        """Open addressing: the slot of a name's hash, or one after it, holds its id."""
        self._counts = [0] * _SEGMENTS
        """How many slots of each segment are not free."""
        self._released = [0] * _SEGMENTS
        """How many of these are of names that are gone."""
        self._cache: dict[bytes, int] = {}
        self._gone = 0
        """How many bytes of the arena are of names that are gone."""
        self._read = self._write = 0
        """While it is tidied up: what stands before `write` is, what stands from `read` on is to be."""

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._places) - len(self._free)

    @property
    def id_count(self) -> int:
        """How many ids were ever in use at a time: all of them are below it."""
        return len(self._places)

    def text(self, name_id: int) -> bytes:
        """The name with this id; raises LookupError if it is no name's."""
        place = self._places[name_id]
        if place == _NOWHERE:
            raise LookupError(f"{name_id} is the id of no name")
        return bytes(self._arena[place : self._arena.index(_END, place)])

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
        """These names are gone; their ids may be given to others from here on."""
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
        """Go on, by so many names, with moving the text of names together; whether there is reason to."""
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
        """All names, some after the other: their ids, and their text, each with its end.

        Meanwhile names may come, but none may be released, and nothing is tidied up.
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
        """Take names in, as `parts` told them; `restored` must follow the last of them. Raises ValueError."""
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _END[0])
        if len(ends) != len(ids) or (len(ids) and int(ends[-1]) != len(text) - 1):
            raise ValueError("there are not as many names as ids")
        if len(ids) and int(ids.max()) >= len(self._places):
            self._places.extend(array("I", (_NOWHERE,)) * (int(ids.max()) + 1 - len(self._places)))
        places = np.frombuffer(self._places, np.uint32)
        places[ids] = np.concatenate((np.zeros(1, np.int64), ends + len(_END)))[:-1] + len(self._arena)
        self._arena += text

    def restored(self) -> Iterator[None]:
        """All names are there: make it so that they can be found, in steps."""
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
        """For every id whether it is a name's."""
        is_named: NDArray[np.bool_] = np.frombuffer(self._places, np.uint32) != _NOWHERE
        return is_named

    # --- the index ---

    def _remember(self, name: bytes, name_id: int) -> None:
        if len(self._cache) >= _CACHED_NAMES:
            self._cache.clear()
        self._cache[name] = name_id

    def _probe(self, name: bytes) -> tuple[int, int, int]:
        """The segment and the slot where the name is or would go, and its id or _FREE."""
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
        """Make a segment of the index anew, for these names with these hashes."""
        slots = _slots_for(len(name_ids), segment)
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
        self._counts[segment], self._released[segment] = len(name_ids), 0


def _slots_for(count: int, segment: int) -> int:
    """How many slots a segment is to have for so many names, with room for more.

    Each segment has sizes of its own, so that not all of them have to grow at the same time.
    """
    growth = _GROWTH if count >= _FEWEST_HASHED_TOGETHER else _GROWTH_OF_FEW
    needed, phase = (count + 1) / _HIGHEST_LOAD, segment / _SEGMENTS
    if needed <= _SMALLEST_INDEX:
        return _SMALLEST_INDEX
    steps = math.floor(math.log(needed, growth) - phase) + 1
    slots: float = growth ** (steps + phase)
    return math.ceil(slots)


def _spans(starts: Ids, sizes: Ids) -> Ids:
    """The numbers from each start on, as many as its size says, one after the other."""
    ends = np.cumsum(sizes)
    spans: Ids = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(ends[-1]))
    return spans


def _crc_table() -> NDArray[np.uint32]:
    # What one more byte does to a register of zeros; the register of no bytes at all is all ones.
    return np.array([crc32(bytes((byte,)), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)], np.uint32)


_CRC_TABLE = _crc_table()


def _crc32_each(arena: bytearray, places: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The CRC of each of the names at these places, as `zlib.crc32` has it."""
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

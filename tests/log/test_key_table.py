"""The last offset of each key, in a table of fixed size."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from headgate.log import key_table
from headgate.log.key_table import SLOT_BYTES, KeyTable, TableFull, key_hash


def hashed(low: int, high: int) -> bytes:
    """What a key with these halves is known by."""
    return struct.pack("=qq", low, high)


@pytest.mark.parametrize(
    ("keys", "limit_slots", "slots"),
    [
        (0, 1 << 20, 64),
        (48, 1 << 20, 64),
        (49, 1 << 20, 128),
        (96, 1 << 20, 128),
        (97, 1 << 20, 256),
        (10**6, 256, 256),
        (10**6, 511, 256),
        (10**6, 512, 512),
        (10**6, 0, 64),
    ],
)
def test_a_table_has_room_for_its_keys_at_three_quarters_or_as_much_as_is_allowed(
    keys: int, limit_slots: int, slots: int
) -> None:
    """A power of two, and no fewer slots than 64."""
    table = KeyTable(keys, limit_slots * SLOT_BYTES)
    assert (table._slots, table.room, len(table._offsets)) == (slots, slots * 3 // 4, slots)


def test_colliding_keys_are_distinguished() -> None:
    """By both halves of their hashes, also if the search wraps around."""
    table = KeyTable(10, 1 << 20)
    keys = [hashed(63, 1), hashed(63, 2), hashed(127, 1), hashed(0, 1), hashed(-1, 1)]
    slots = [table.put(key, offset) for offset, key in enumerate(keys)]
    assert slots == [63, 0, 1, 2, 3]
    assert [table.get(key) for key in keys] == [0, 1, 2, 3, 4]
    assert [table.get(hashed(63, 3)), table.get(hashed(191, 1)), table.get(hashed(5, 5))] == [-1, -1, -1]
    assert (table.put(keys[1], 9), table.count) == (0, 5)
    assert [table.get(key) for key in keys] == [0, 9, 2, 3, 4]


def test_one_slot_stays_free() -> None:
    """It ends every search; known keys can still be set."""
    table = KeyTable(0, 0)
    for at in range(63):
        table.put(hashed(at * 7, at), at)
    assert (table.count, table.get(hashed(10**6, 0))) == (63, -1)
    with pytest.raises(TableFull):
        table.put(hashed(10**6, 0), 99)
    assert (table.count, table.get(hashed(10**6, 0))) == (63, -1)
    table.put(hashed(0, 0), 100)
    assert table.get(hashed(0, 0)) == 100


@pytest.mark.parametrize("remembered", [0, 2, 1 << 16])
@pytest.mark.interpreted
def test_put_each_and_get_each_equal_single_calls(monkeypatch: pytest.MonkeyPatch, remembered: int) -> None:
    """For a repeated key the last offset remains, whether or not its slot is cached."""
    monkeypatch.setattr(key_table, "_MOST_REMEMBERED", remembered)
    table = KeyTable(10, 1 << 20)
    table.put_each([b"a", b"b", b"a", b"c"], np.array([0, 1, 2, 3]))
    table.put_each([b"c", b"d", b"b"], np.array([4, 5, 6]))
    assert len(table._slot_of) == min(remembered, 4)
    assert table.get_each([b"d", b"never", b"a", b"b", b"c"]).tolist() == [5, -1, 2, 6, 4]
    assert [table.get(key_hash(key)) for key in (b"a", b"b", b"c", b"d", b"e")] == [2, 6, 4, 5, -1]
    assert table.count == 4

"""Find the parts of offset commits record by record, as machine code where numba is installed.

Tests run the same function as plain Python. Without numba, `headgate.spark.commit_columns` reads with numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from headgate.log import machine_code

COLUMNS = 12
"""Rows of the output: position and size of the group, position and size of the topic, partition, version of
the value, committed offset, leader epoch, position and size of the metadata, commit and expire timestamp.
"""

NO_COMMIT, TOMBSTONE, UNKNOWN, KNOWN = 0, 1, 2, 3
"""Kinds of records: no valid commit, a removal, a value of a version without a layout here, a commit."""

_SMALLEST_KEY = 10
_LAST_VERSION = 4
_NONE = -1


def int64(words: Any, at: Any) -> Any:
    """Return the big-endian integer of eight bytes. Compilers make one instruction of it."""
    word = int(words[at])
    first = word & 0xFF
    return (
        (first - ((first & 0x80) << 1)) << 56
        | ((word >> 8) & 0xFF) << 48
        | ((word >> 16) & 0xFF) << 40
        | ((word >> 24) & 0xFF) << 32
        | ((word >> 32) & 0xFF) << 24
        | ((word >> 40) & 0xFF) << 16
        | ((word >> 48) & 0xFF) << 8
        | ((word >> 56) & 0xFF)
    )


def int32(words: Any, at: Any) -> Any:
    """Return the big-endian integer of four bytes."""
    return int64(words, at) >> 32


def int16(words: Any, at: Any) -> Any:
    """Return the big-endian integer of two bytes."""
    return int64(words, at) >> 48


def find_commits(
    words: Any, key_at: Any, key_size: Any, value_at: Any, value_size: Any, out: Any, kind: Any
) -> None:
    """Fill `out`, a row for each of `COLUMNS` and a column for each record, and `kind`, one for each record.

    `words` are those of the payload (`batch_scan.words_of`), which has some bytes after the last value. Sizes
    of -1 mean null. `kind` has only zeros; `out` is undefined where nothing is read. The layouts are those of
    `headgate.spark.commit_columns`.
    """
    for row in range(len(key_at)):
        at = key_at[row]
        end = at + key_size[row]
        if key_size[row] < _SMALLEST_KEY:
            continue
        version = int16(words, at)
        group_size = int16(words, at + 2)
        topic_at = at + 6 + group_size
        if version < 0 or version > 1 or group_size < 0 or topic_at + 4 > end:
            continue
        topic_size = int16(words, topic_at - 2)
        if topic_size < 0 or topic_at + topic_size + 4 != end:
            continue
        out[0, row] = at + 4
        out[1, row] = group_size
        out[2, row] = topic_at
        out[3, row] = topic_size
        out[4, row] = int32(words, end - 4)
        out[5, row] = _NONE
        if value_size[row] < 0:
            kind[row] = TOMBSTONE
            continue
        at = value_at[row]
        end = at + value_size[row]
        if value_size[row] < 2:
            continue
        version = int16(words, at)
        out[5, row] = version
        if version > _LAST_VERSION:
            kind[row] = UNKNOWN
            continue
        at += 2
        if at + (12 if version >= 3 else 8) > end:
            continue
        out[6, row] = int64(words, at)
        at += 8
        out[7, row] = _NONE
        if version >= 3:
            out[7, row] = int32(words, at)
            at += 4
        size = 0
        if version == _LAST_VERSION:
            for index in range(5):
                octet = int16(words, at) >> 8 & 0xFF
                at += 1
                size += (octet & 0x7F) << (7 * index)
                if octet < 0x80:
                    break
            size -= 1
        else:
            size = int16(words, at)
            at += 2
        if size < 0 or at + size + (16 if version == 1 else 8) > end:
            continue
        out[8, row] = at
        out[9, row] = size
        at += size
        out[10, row] = int64(words, at)
        at += 8
        out[11, row] = _NONE
        if version == 1:
            out[11, row] = int64(words, at)
            at += 8
        if at == end or version == _LAST_VERSION:
            kind[row] = UNKNOWN if version < 0 else KNOWN


@cache
def compiled_find_commits() -> Callable[..., None] | None:
    """Return the function as machine code; None without numba."""
    read = machine_code.COLUMN
    return machine_code.compiled(
        find_commits,
        "void",
        machine_code.WORDS,
        read,
        read,
        read,
        read,
        machine_code.TABLE_TO_FILL,
        "uint8[::1]",
        calls=(int64, int32, int16),
    )

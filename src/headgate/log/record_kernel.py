"""Find the fields of records one by one, as machine code where numba is installed.

Tests run the same function as plain Python. Without numba, `headgate.log.batch_records` reads with numpy
instead, which is faster than plain Python.

Machine code has integers of 64 bits that wrap, and does not check an index. So a size is compared with the
room that is left, never added to a position first; and a byte is read before the check of its position only
where that is at most one after the end, which the bytes after the records allow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from headgate.log import machine_code

COLUMNS = 9
"""Rows of the output: timestamp delta, offset delta, key position and size, value position and size, header
count, headers' position, and the end of the record.
"""

GOOD, ASTRAY, WRONG = 0, 1, 2
"""Faults of a batch: its lengths do not match its size, or its fields do not fill their records, or its
offsets do not rise.
"""

_MOST_BITS = 63
"""A varint has up to ten bytes, of which the tenth has the last of 64 bits."""


def find_fields(octets: Any, begin: Any, end: Any, count: Any, last_delta: Any, out: Any, fault: Any) -> bool:
    """Fill `out`, a row for each of `COLUMNS` and a column for each record, and `fault`, one for each batch.

    The records of batch i are the bytes `begin[i]` to `end[i]` of `octets`, which has a few more bytes after
    them, and the offset of its last record is `last_delta[i]` from that of the batch. All arrays except
    `octets` are int64. `out` is undefined for the records of a batch with a fault. Return whether a record
    has headers, which are not read.
    """
    row = 0
    has_headers = False
    for batch in range(len(begin)):
        previous = -1
        at = begin[batch]
        limit = end[batch]
        first = row
        for _ in range(count[batch]):
            # The length of the record; a varint is zigzag-encoded, as are those below. Most have one byte.
            value = int(octets[at])
            if at < limit and value < 0x80:
                at += 1
            else:
                value = 0
                shift = 0
                while at < limit and shift <= _MOST_BITS:
                    octet = int(octets[at])
                    at += 1
                    value |= (octet & 0x7F) << shift
                    shift += 7
                    if octet < 0x80 and (shift <= _MOST_BITS or octet < 2):
                        break
                else:
                    fault[batch] = ASTRAY
                    break
            size = (value >> 1) & 0x7FFFFFFFFFFFFFFF
            if value & 1 or size > limit - at:
                fault[batch] = ASTRAY
                break
            stop = at + size
            at += 1  # the attributes, which are not used
            for field in range(5):
                value = int(octets[at])
                if at < stop and value < 0x80:
                    at += 1
                else:
                    value = 0
                    shift = 0
                    while at < stop and shift <= _MOST_BITS:
                        octet = int(octets[at])
                        at += 1
                        value |= (octet & 0x7F) << shift
                        shift += 7
                        if octet < 0x80 and (shift <= _MOST_BITS or octet < 2):
                            break
                    else:
                        fault[batch] = WRONG
                        break
                number = ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)
                if field == 2 or field == 3:
                    place = 2 * field - 2
                    out[place, row] = at
                    out[place + 1, row] = number
                    if number < -1 or number > stop - at:
                        fault[batch] = WRONG
                        break
                    if number > 0:
                        at += number
                elif field == 4:
                    out[6, row] = number
                    if number:
                        has_headers = True
                    if number < 0 or (number == 0 and at != stop):
                        fault[batch] = WRONG
                        break
                else:
                    out[field, row] = number
                    if field == 1:
                        if number <= previous or number > last_delta[batch]:
                            fault[batch] = WRONG
                            break
                        previous = number
            if fault[batch]:
                break
            out[7, row] = at
            out[8, row] = stop
            at = stop
            row += 1
        if not fault[batch] and at != limit:
            fault[batch] = ASTRAY
        row = first + count[batch]
    return has_headers


@cache
def compiled_find_fields() -> Callable[..., bool] | None:
    """Return the function as machine code; None without numba."""
    read, fill = machine_code.COLUMN, machine_code.COLUMN_TO_FILL
    return machine_code.compiled(
        find_fields, "boolean", machine_code.OCTETS, read, read, read, read, machine_code.TABLE_TO_FILL, fill
    )

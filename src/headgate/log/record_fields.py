"""Find the fields of records, for all records of many batches at once: the one decoder of record batches.

Records have lengths of variable width, so the position of each follows from the one before. There are three
ways to find them:

1. machine code (`headgate.log.record_kernel`), for a caller that asks for it;
2. one numpy operation for the n-th records of all batches, while many batches have records left;
3. `headgate.log.record_steps`, batch by batch, which is faster for few batches.

The other fields are then read for all records at once. Nothing is copied: columns have positions in the
payload. Faults are marked, not raised: `headgate.log.record_columns` is strict about them,
`headgate.log.batch_records` tolerant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.log.record_steps import Steps

Ints: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.bool_]

WALK_IN_STEP_FROM = 200
"""Minimum number of batches for which the numpy operation is faster than the steps; measured."""

_LAST_SHIFT = 63
"""A varint has up to ten bytes, of which the tenth has the last of 64 bits."""
_ALL_BUT_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_NONE: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of records as columns, in the order of `headgate.log.record_kernel.find_fields`.

    `overrun` marks fields that exceed their record; the other fields of such a batch are invalid.
    """

    overrun: Bits
    timestamp_delta: Ints
    offset_delta: Ints
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints
    header_count: Ints
    headers_at: Ints
    end: Ints


def find_fields(payload: bytes | bytearray, begin: Ints, end: Ints, count: Ints) -> tuple[Bits, Fields]:
    """Return the batches whose lengths do not match, and the fields of all records.

    The records of batch i are the bytes `begin[i]` to `end[i]` of the payload, which has a few more bytes
    after them. The batches follow each other in the payload.
    """
    starts, ends, astray = _walk(payload, begin, end, count)
    if astray.any():
        return astray, Fields(np.zeros(0, np.bool_), *([_NONE] * 9))
    octets = np.frombuffer(payload, np.uint8)
    length = FieldReader(octets, starts, ends)
    length.varint()
    # The first byte of a record is its attributes, which are not used.
    read = FieldReader(octets, length.at + 1, ends)
    timestamp_delta = read.varint()
    offset_delta = read.varint()
    key_at, key_size = read.sized()
    value_at, value_size = read.sized()
    header_count = read.varint()
    fields = Fields(
        read.overrun,
        timestamp_delta,
        offset_delta,
        key_at,
        key_size,
        value_at,
        value_size,
        header_count,
        read.at,
        ends,
    )
    return astray, fields


def offsets_rise(offset_delta: Ints, batch: Ints, last_delta: Ints) -> Bits:
    """Return whether each record's offset is greater than the previous one, up to the batch's last offset.

    `batch` is the batch of each record, `last_delta` the last offset of each batch from its base.
    """
    rises = (offset_delta >= 0) & (offset_delta <= last_delta[batch])
    rises[1:] &= (offset_delta[1:] > offset_delta[:-1]) | (batch[1:] != batch[:-1])
    return rises


def _walk(payload: bytes | bytearray, begin: Ints, end: Ints, count: Ints) -> tuple[Ints, Ints, Bits]:
    """Return the start and end of each record, and the batches whose lengths do not match."""
    if len(count) < WALK_IN_STEP_FROM:
        starts, ends, is_good = _step_through(payload, begin, end, count)
        return starts, ends, ~is_good
    total = int(count.sum())
    starts, ends = np.zeros(total, dtype=np.int64), np.zeros(total, dtype=np.int64)
    # The batches with most records first: those with records left are then always the first ones.
    order = np.argsort(-count, kind="stable")
    at, limit = begin[order], end[order]
    row = (np.cumsum(count) - count)[order]
    astray = np.zeros(len(count), dtype=np.bool_)
    falling = -count[order]
    octets = np.frombuffer(payload, np.uint8)
    step = 0
    while (active := int(np.searchsorted(falling, -step))) >= WALK_IN_STEP_FROM:
        read = FieldReader(octets, at[:active], limit[:active])
        starts[row[:active] + step] = at[:active]
        _, size = read.sized()
        ends[row[:active] + step] = at[:active] = read.at
        astray[:active] |= read.overrun | (size < 0)
        step += 1
    if active:
        left = -falling[:active] - step
        found, found_ends, is_good = _step_through(payload, at[:active], limit[:active], left)
        if not is_good.all():
            astray[:active] |= ~is_good
        else:
            places = np.repeat(row[:active] + step - (np.cumsum(left) - left), left) + np.arange(len(found))
            starts[places], ends[places] = found, found_ends
        at[:active] = limit[:active]
    astray |= at != limit
    in_order = np.zeros_like(astray)
    in_order[order] = astray
    return starts, ends, in_order


def _step_through(payload: bytes | bytearray, begin: Ints, end: Ints, count: Ints) -> tuple[Ints, Ints, Bits]:
    """Return start and end of each record, batch by batch, and the batches whose lengths match."""
    steps = Steps(bytes(payload))
    bounds = zip(begin.tolist(), end.tolist(), count.tolist(), strict=True)
    is_good = np.array([steps.over(*batch) for batch in bounds], np.bool_)
    starts = steps.starts()
    if not is_good.all():
        return starts, starts, is_good
    ends = np.append(starts[1:], 0)
    ends[(np.cumsum(count) - 1)[count > 0]] = end[count > 0]
    return starts, ends, is_good


class FieldReader:
    """Reads the same field of many records at once and advances each; never past the record's end.

    A record whose fields do not fit is marked in `overrun` and stays at its end from then on.
    """

    def __init__(self, octets: NDArray[np.uint8], at: Ints, limit: Ints) -> None:
        self.octets = octets
        self.at = at
        self.limit = limit
        self.overrun: Bits = at > limit

    def varint(self) -> Ints:
        """Read a zigzag-encoded integer of variable width."""
        octet = self.octets[self.at].astype(np.int64)
        at = self.at + 1
        more = np.flatnonzero(octet >= 0x80)
        if more.size:
            value = octet & 0x7F
            for shift in range(7, _LAST_SHIFT + 1, 7):
                octet = self.octets[at[more]].astype(np.int64)
                value[more] |= (octet & 0x7F) << shift
                at[more] += 1
                if shift == _LAST_SHIFT:
                    self.overrun[more[octet > 1]] = True
                more = more[octet >= 0x80]
                if not more.size:
                    break
            octet = value
        self._move(at)
        return ((octet >> 1) & _ALL_BUT_SIGN) ^ -(octet & 1)

    def sized(self) -> tuple[Ints, Ints]:
        """Read bytes with a size prefix: return their positions and sizes (-1 for null)."""
        size = self.varint()
        at = self.at
        self.overrun |= size < -1
        # A size near 2^63 would wrap a sum: one byte after the end is far enough.
        self._move(at + np.clip(size, 0, self.limit - at + 1))
        return at, size

    def _move(self, at: Ints) -> None:
        over = at > self.limit
        if over.any():
            self.overrun |= over
            at = np.where(over, self.limit, at)
        self.at = at

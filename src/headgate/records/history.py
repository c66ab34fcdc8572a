"""The record headers and the mark of `__consumer_offsets_history`.

Each partition of the coordinator's log has a history partition of the same number. A history record is a
record that compaction removed from the coordinator's log, with unchanged key and value: readers of one topic
can read the other. Its timestamp is the time of the move, so retention counts from the moment a value was
replaced. A header has the record's original offset and timestamp. The records of one key are in the order of
the log. A crash can move some of them twice; equal original offsets reveal the duplicates.

The first record of a history is a mark with a key type of its own: the history is complete from the mark's
time on. When retention has deleted the mark, the history is complete from its first record on, because the
deleted records were moved before that one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headgate.domain.ids import Millis

ORIGIN_KEY = b"headgate.origin"
MARK_KEY_TYPE = 1001
SINCE_EVER = Millis(-1)
"""The mark's time if no record of the log was ever dropped."""

_ORIGIN = struct.Struct(">qq")
ORIGIN_BYTES = _ORIGIN.size
"""The value of the header: offset int64, timestamp int64, big-endian."""
_MARK_KEY = struct.pack(">h", MARK_KEY_TYPE)
_MARK_VALUE = struct.Struct(">hq")
_MARK_VERSION = 0


class Origin(NamedTuple):
    """The offset of a history record in the coordinator's log, and its timestamp there, in ms."""

    offset: int
    timestamp: int

    def header(self) -> tuple[bytes, bytes]:
        """Return the record header of this origin."""
        return ORIGIN_KEY, _ORIGIN.pack(*self)


def origin_of(headers: Sequence[tuple[bytes, bytes | None]]) -> Origin | None:
    """Return the origin in the headers of a record; None for a record that was not moved."""
    for key, value in headers:
        if key == ORIGIN_KEY and value is not None and len(value) == _ORIGIN.size:
            return Origin(*_ORIGIN.unpack(value))
    return None


def encode_mark(known_since: Millis) -> tuple[bytes, bytes]:
    """Return key and value of a mark: all values that were current at `known_since` or later are known."""
    return _MARK_KEY, _MARK_VALUE.pack(_MARK_VERSION, known_since)


def decode_mark(key: bytes | None, value: bytes | None) -> Millis | None:
    """Return the time of a mark, in ms; None for any other record."""
    if key != _MARK_KEY or value is None or len(value) != _MARK_VALUE.size:
        return None
    version, known_since = _MARK_VALUE.unpack(value)
    return Millis(known_since) if version == _MARK_VERSION else None

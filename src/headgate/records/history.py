"""What is special about the records of `__consumer_offsets_history`, partition by partition beside the log.

A record of the history is one that compaction took out of the coordinator's log: its key and value are as
they were, so whatever reads the one topic reads the other. Its timestamp is the time of the move, by which
retention counts: a value is kept that long after it was replaced. Where it stood, and when it was written
there, is in a header. Of one key the records come in the order of the log; a crash may have some of them
moved twice, which the place they had tells.

The first record of a history that is whole from some time on is a mark, of a key type of its own, that says
from when. Once retention has deleted it, the first record there is says so: whatever is gone was moved
before.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headgate.domain.ids import Millis

ORIGIN_KEY = b"headgate.origin"
MARK_KEY_TYPE = 1001
SINCE_EVER = Millis(-1)
"""The time in the mark of a log of which nothing was ever dropped."""

_ORIGIN = struct.Struct(">qq")
ORIGIN_BYTES = _ORIGIN.size
"""The value of the header: offset int64, timestamp int64, big-endian."""
_MARK_KEY = struct.pack(">h", MARK_KEY_TYPE)
_MARK_VALUE = struct.Struct(">hq")
_MARK_VERSION = 0


class Origin(NamedTuple):
    """Where a record of the history stood in the coordinator's log, and its timestamp there, in ms."""

    offset: int
    timestamp: int

    def header(self) -> tuple[bytes, bytes]:
        """The record header that says so."""
        return ORIGIN_KEY, _ORIGIN.pack(*self)


def origin_of(headers: Sequence[tuple[bytes, bytes | None]]) -> Origin | None:
    """What the headers of a record say of its origin; None for one that was not moved."""
    for key, value in headers:
        if key == ORIGIN_KEY and value is not None and len(value) == _ORIGIN.size:
            return Origin(*_ORIGIN.unpack(value))
    return None


def encode_mark(known_since: Millis) -> tuple[bytes, bytes]:
    """Key and value of a mark: of what was in force at that time or later nothing is missing."""
    return _MARK_KEY, _MARK_VALUE.pack(_MARK_VERSION, known_since)


def decode_mark(key: bytes | None, value: bytes | None) -> Millis | None:
    """The time of a mark; None for any other record."""
    if key != _MARK_KEY or value is None or len(value) != _MARK_VALUE.size:
        return None
    version, known_since = _MARK_VALUE.unpack(value)
    return Millis(known_since) if version == _MARK_VERSION else None

"""Runs: atomic commits that are too large for one batch (R3.12, R3.13).

A batch is atomic because of its checksum, so a commit that fits in one batch needs no run. A larger commit is
a run of records over several batches. A header of each record has the run's id, the record's place in the run
and the number of records. Other readers ignore the header. The run's id is the log offset of its first
record, which is unique in a log.

An incomplete run is torn: its records do not count. But they are the last records of their keys, so a reader
that keeps the last record of each key would prefer them to the current values. Therefore loading appends the
current values of these keys when it finds a torn run at the end of a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

HEADER_KEY = b"headgate.run"

_HEADER = Struct(">qii")
RUN_PLACE_BYTES = _HEADER.size
"""The value of the header: first offset int64, records before int32, records in all int32, big-endian."""
_ONE = 2
"""The zigzag varint of 1. The varint of a small size is likewise twice the size."""
_TAIL = np.dtype(
    [
        ("count", "u1"),
        ("key_size", "u1"),
        ("key", f"S{len(HEADER_KEY)}"),
        ("value_size", "u1"),
        ("first", ">i8"),
        ("before", ">i4"),
        ("total", ">i4"),
    ]
)
"""The end of a record that has only this header."""
RUN_HEADERS_BYTES = _TAIL.itemsize

RecordT = TypeVar("RecordT")


class RunPlace(NamedTuple):
    """The place of a record in its run."""

    first_offset: int
    """The log offset of the run's first record: the run's id."""
    before: int
    """Records of the run before this one."""
    total: int
    """Records of the run."""

    def header(self) -> tuple[bytes, bytes]:
        """Return the record header of this place."""
        return HEADER_KEY, _HEADER.pack(*self)


def run_headers(place: RunPlace, count: int) -> NDArray[np.uint8]:
    """Return the header bytes of `count` records from `place` on, a row for each record.

    They follow the record's value and contain the number of headers, 1, and the header.
    """
    first_offset, before, total = place
    tails = np.empty(count, _TAIL)
    tails["count"] = _ONE
    tails["key_size"], tails["key"] = 2 * len(HEADER_KEY), HEADER_KEY
    tails["value_size"] = 2 * _HEADER.size
    tails["first"], tails["total"] = first_offset, total
    tails["before"] = before + np.arange(count)
    return tails.view(np.uint8).reshape(count, _TAIL.itemsize)


def run_place(headers: Sequence[tuple[bytes, bytes | None]]) -> RunPlace | None:
    """Return the record's place in its run; None for a record outside of runs."""
    for key, value in headers:
        if key == HEADER_KEY and value is not None and len(value) == _HEADER.size:
            return RunPlace(*_HEADER.unpack(value))
    return None


def run_stretch(data: bytes, header_starts: NDArray[np.int64], ends: NDArray[np.int64]) -> RunPlace | None:
    """Return the place of the first record if the records follow each other in one run, else None.

    `header_starts` are the positions in `data` of the records' headers, `ends` the positions after the
    records. `data` must have spare bytes after the last record.
    """
    tails = np.ndarray((len(data) - _TAIL.itemsize,), _TAIL, data, strides=(1,))[header_starts]
    first, before, total = tails["first"], tails["before"], tails["total"]
    is_one = (
        (ends - header_starts == _TAIL.itemsize)
        & (tails["count"] == _ONE)
        & (tails["key_size"] == 2 * len(HEADER_KEY))
        & (tails["key"] == HEADER_KEY)
        & (tails["value_size"] == 2 * _HEADER.size)
        & (first == first[0])
        & (total == total[0])
        & (before == before[0] + np.arange(len(before)))
    )
    if not is_one.all() or not 0 <= before[0] <= before[-1] < total[0]:
        return None
    return RunPlace(int(first[0]), int(before[0]), int(total[0]))


class RunReader(Generic[RecordT]):
    """Reads records in the order of the log and returns those that are complete."""

    __slots__ = ("_open", "_place", "torn")

    def __init__(self) -> None:
        self._open: list[RecordT] = []
        self._place: RunPlace | None = None
        self.torn: list[RecordT] = []
        """The records of torn runs after the last complete record."""

    @property
    def is_open(self) -> bool:
        """Whether a run has started and not ended."""
        return bool(self._open)

    def take(self, record: RecordT, place: RunPlace | None) -> Sequence[RecordT]:
        """Take a record and return the records that it completes: this one, a whole run, or none."""
        if place is None:
            self._break_off()
            self.torn = []
            return (record,)
        expected = self._place
        if expected is None or place != expected:
            self._break_off()
            if place.before:
                self.torn.append(record)  # the start of the run is missing
                return ()
        self._open.append(record)
        if place.before + 1 < place.total:
            self._place = place._replace(before=place.before + 1)
            return ()
        complete, self._open, self._place, self.torn = self._open, [], None, []
        return complete

    def end(self) -> Sequence[RecordT]:
        """End the log. Return the records of all torn runs after the last complete record."""
        self._break_off()
        return self.torn

    def _break_off(self) -> None:
        self.torn += self._open
        self._open, self._place = [], None

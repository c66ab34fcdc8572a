"""Runs: commits too large for one batch, all or nothing all the same (R3.12, R3.13).

A batch stands or falls by its checksum, so a commit that fits one needs nothing more. A larger one is a run
of records over several batches, each record with a header that says which run it belongs to, its place in it
and how many there are. Readers that do not know the header ignore it. The run's id is the log offset of its
first record: no two runs of one log share it.

A run that breaks off is as if it had never been written. But its records are the last ones of their keys, and
whatever keeps only the last record of each key would keep them over the values that stand. So whoever finds
a torn run at the end of a log writes the standing values of its keys once more, behind it.
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
"""One, and below twice a size: numbers as they are written in a record."""
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
"""How a record ends that has this one header."""
RUN_HEADERS_BYTES = _TAIL.itemsize

RecordT = TypeVar("RecordT")


class RunPlace(NamedTuple):
    """Where a record stands in its run: how many come before it, and how many there are."""

    first_offset: int
    """The log offset of the run's first record."""
    before: int
    total: int

    def header(self) -> tuple[bytes, bytes]:
        """The record header that says so."""
        return HEADER_KEY, _HEADER.pack(*self)


def run_headers(place: RunPlace, count: int) -> NDArray[np.uint8]:
    """What stands behind the values of `count` records from this place on, a row each: their one header."""
    first_offset, before, total = place
    tails = np.empty(count, _TAIL)
    tails["count"] = _ONE
    tails["key_size"], tails["key"] = 2 * len(HEADER_KEY), HEADER_KEY
    tails["value_size"] = 2 * _HEADER.size
    tails["first"], tails["total"] = first_offset, total
    tails["before"] = before + np.arange(count)
    return tails.view(np.uint8).reshape(count, _TAIL.itemsize)


def run_place(headers: Sequence[tuple[bytes, bytes | None]]) -> RunPlace | None:
    """What the headers of a record say of its run; None for a record that is none's."""
    for key, value in headers:
        if key == HEADER_KEY and value is not None and len(value) == _HEADER.size:
            return RunPlace(*_HEADER.unpack(value))
    return None


def run_stretch(data: bytes, header_starts: NDArray[np.int64], ends: NDArray[np.int64]) -> RunPlace | None:
    """The place of the first of some records, if they follow each other in one run; None if they do not.

    `header_starts` says where in `data` each record's headers start, and `ends` where the record ends; the
    buffer goes on for a few bytes behind the last.
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
    """Reads records in the order of the log and gives out those that count."""

    __slots__ = ("_open", "_place", "torn")

    def __init__(self) -> None:
        self._open: list[RecordT] = []
        self._place: RunPlace | None = None
        self.torn: list[RecordT] = []
        """The records of runs that broke off, with nothing complete behind them so far."""

    @property
    def is_open(self) -> bool:
        """Whether a run has begun and not ended."""
        return bool(self._open)

    def take(self, record: RecordT, place: RunPlace | None) -> Sequence[RecordT]:
        """The records that are known to be complete now: this one, a whole run, or none yet."""
        if place is None:
            self._break_off()
            self.torn = []
            return (record,)
        expected = self._place
        if expected is None or place != expected:
            self._break_off()
            if place.before:
                self.torn.append(record)  # the run's beginning is not there
                return ()
        self._open.append(record)
        if place.before + 1 < place.total:
            self._place = place._replace(before=place.before + 1)
            return ()
        complete, self._open, self._place, self.torn = self._open, [], None, []
        return complete

    def end(self) -> Sequence[RecordT]:
        """The log ends here: the records of all torn runs behind the last complete record."""
        self._break_off()
        return self.torn

    def _break_off(self) -> None:
        self.torn += self._open
        self._open, self._place = [], None

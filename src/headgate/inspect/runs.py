"""The search for torn runs: incomplete commits over several batches (`headgate.records.runs`)."""

from __future__ import annotations

from typing import NamedTuple

from headgate.records.runs import RunPlace


class TornRun(NamedTuple):
    """A run with `present` of its `total` records, the last of them at `last_offset`."""

    first_offset: int
    last_offset: int
    present: int
    total: int


class RunWatch:
    """Takes all records in order and finds torn runs."""

    __slots__ = ("_last", "_last_offset", "_present", "at_tail")

    def __init__(self) -> None:
        self._last: RunPlace | None = None
        self._last_offset = -1
        self._present = 0
        self.at_tail: list[TornRun] = []
        """Torn runs after the last complete record. The next start appends their keys' current values."""

    def take(self, offset: int, place: RunPlace | None) -> TornRun | None:
        """Take a record. Return the run that it shows to be torn, if any."""
        if place is None and self._last is None and not self.at_tail:
            return None
        torn = None
        if self._last is not None and place != self._last._replace(before=self._last.before + 1):
            torn = self._break_off()
        if place is None:
            self.at_tail = []
            return torn
        self._present = self._present + 1 if self._last is not None else 1
        self._last, self._last_offset = place, offset
        if place.before + 1 >= place.total:
            self._last = None
            if self._present < place.total:
                torn = torn or TornRun(place.first_offset, offset, self._present, place.total)
                self.at_tail.append(TornRun(place.first_offset, offset, self._present, place.total))
            else:
                self.at_tail = []
        return torn

    def end(self) -> list[TornRun]:
        """End the log. Return the torn runs after the last complete record."""
        if self._last is not None:
            self._break_off()
        return self.at_tail

    def _break_off(self) -> TornRun:
        assert self._last is not None
        torn = TornRun(self._last.first_offset, self._last_offset, self._present, self._last.total)
        self.at_tail.append(torn)
        self._last = None
        return torn

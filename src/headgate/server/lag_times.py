"""For how long the records after a committed offset have been there: lag in seconds.

The ends of the logs are noted at each scrape. A record is older than the first end above it, and younger than
the last end at or below it; the estimate is between these two times in proportion. So no log is read. Fewer
notes are kept of times long ago: their distance is a quarter of their age, at least `LEAST_DISTANCE_MS`.
The first known end of each log is kept for ever: a record that is older has been there since then at least.
A log of which an earlier end is greater was made anew, and has no age from before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from headgate.core.offsets.lags import UNKNOWN, TopicEnds
from headgate.domain.ids import Millis, TopicName
from headgate.records.columns import Int64s

LEAST_DISTANCE_MS: Final = 5_000
_SHARE_OF_AGE: Final = 4
_MOST_AGE_MS: Final = 7 * 24 * 3_600_000


class _Note(NamedTuple):
    at: Millis
    ends: Mapping[TopicName, TopicEnds]

    def end_of(self, topic: TopicName, partition: int) -> int | None:
        """Return the end of a partition at that time; `UNKNOWN` if its log was not open, None if it did not
        exist.
        """
        ends = self.ends.get(topic)
        return int(ends.ends[partition]) if ends is not None and partition < len(ends.ends) else None


class _First(NamedTuple):
    """The first known ends of a topic's partitions, and their times in ms; `UNKNOWN` where none is known."""

    ends: Int64s
    times: Int64s
    is_complete: bool


class LagTimes:
    """The ends of all logs at some past times, the oldest first."""

    def __init__(self) -> None:
        self._notes: list[_Note] = []
        self._first: dict[TopicName, _First] = {}

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, now: Millis, ends: Mapping[TopicName, TopicEnds], most_partitions: int) -> None:
        """Note the ends at a time. Forget everything if there are more partitions than `most_partitions`."""
        if sum(len(one.ends) for one in ends.values()) > most_partitions:
            self._notes.clear()
            self._first.clear()
            return
        self._notes.append(_Note(now, ends))
        self._thin_out(now)
        self._first = {topic: self._first_of(topic, one.ends, now) for topic, one in ends.items()}

    def _first_of(self, topic: TopicName, ends: Int64s, now: Millis) -> _First:
        count, nothing = len(ends), ends[:0]
        first = self._first.get(topic)
        is_whole = first is not None and first.is_complete and len(first.ends) == count
        if first is not None and is_whole and not (ends < first.ends).any():
            return first
        if first is None or len(first.ends) > count:  # or a topic of the same name
            first = _First(nothing, nothing, is_complete=False)
        added = np.full(count - len(first.ends), UNKNOWN, np.int64)
        found, times = np.concatenate([first.ends, added]), np.concatenate([first.times, added])
        is_first = (ends != UNKNOWN) & ((found == UNKNOWN) | (ends < found))
        found[is_first] = ends[is_first]
        times[is_first] = now
        return _First(found, times, bool((found != UNKNOWN).all()))

    def _thin_out(self, now: Millis) -> None:
        """Drop notes that are close to the one before them, for their age. The newest one is kept."""
        kept: list[_Note] = []
        for one in self._notes[:-1]:
            age = now - one.at
            distance = max(age // _SHARE_OF_AGE, LEAST_DISTANCE_MS)
            if age <= _MOST_AGE_MS and (not kept or one.at - kept[-1].at >= distance):
                kept.append(one)
        self._notes = [*kept, self._notes[-1]]

    def age_ms(self, topic: TopicName, partition: int, offset: int, now: Millis) -> int:
        """Return for how long the record at `offset`, which is below the end of its log, has been there."""
        later: tuple[int, int] = (now, offset + 1)
        following: int | None = None
        for one in reversed(self._notes):
            end = one.end_of(topic, partition)
            if end == UNKNOWN:
                continue
            if end is None or (following is not None and end > following):
                break
            if end <= offset:
                return now - _between(one.at, end, later, offset)
            later = one.at, end
            following = end
        first = self._first.get(topic)
        if first is not None and partition < len(first.ends) and first.ends[partition] != UNKNOWN:
            at, end = int(first.times[partition]), int(first.ends[partition])
            if at < later[0]:
                return now - (_between(at, end, later, offset) if end <= offset else at)
        return now - later[0]


def _between(at: int, end: int, later: tuple[int, int], offset: int) -> int:
    """Return when `offset` was appended, if the log grew evenly from `end` at a time to a later one."""
    later_at, later_end = later
    share = float(np.clip((offset - end) / max(later_end - end, 1), 0, 1))
    return int(at + (later_at - at) * share)

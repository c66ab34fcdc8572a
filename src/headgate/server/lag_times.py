"""For how long the records after a committed offset have been there: lag in seconds.

The ends of the logs are noted at each scrape. A record is older than the first end above it, and younger than
the last end at or below it; the estimate is between these two times in proportion. So no log is read. Fewer
notes are kept of times long ago: their distance is a quarter of their age, at least `LEAST_DISTANCE_MS`.
A record that is older than all notes has been there since the first of them at least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from headgate.core.offsets.lags import UNKNOWN, TopicEnds
from headgate.domain.ids import Millis, TopicName

LEAST_DISTANCE_MS: Final = 5_000
_SHARE_OF_AGE: Final = 4
_MOST_AGE_MS: Final = 7 * 24 * 3_600_000


class _Note(NamedTuple):
    at: Millis
    ends: Mapping[TopicName, TopicEnds]

    def end_of(self, topic: TopicName, partition: int) -> int:
        """Return the end of a partition at that time; `UNKNOWN` without one."""
        ends = self.ends.get(topic)
        return int(ends.ends[partition]) if ends is not None and partition < len(ends.ends) else UNKNOWN


class LagTimes:
    """The ends of all logs at some past times, the oldest first."""

    def __init__(self) -> None:
        self._notes: list[_Note] = []

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, now: Millis, ends: Mapping[TopicName, TopicEnds], most_partitions: int) -> None:
        """Note the ends at a time. Forget everything if there are more partitions than `most_partitions`."""
        if sum(len(one.ends) for one in ends.values()) > most_partitions:
            self._notes.clear()
            return
        self._notes.append(_Note(now, ends))
        self._thin_out(now)

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
        later: tuple[Millis, int] = (now, offset + 1)
        for one in reversed(self._notes):
            end = one.end_of(topic, partition)
            if end == UNKNOWN:
                break
            if end <= offset:
                return now - _between(one.at, end, later, offset)
            later = one.at, end
        return now - later[0]


def _between(at: Millis, end: int, later: tuple[Millis, int], offset: int) -> int:
    """Return when `offset` was appended, if the log grew evenly from `end` at a time to a later one."""
    later_at, later_end = later
    share = float(np.clip((offset - end) / max(later_end - end, 1), 0, 1))
    return int(at + (later_at - at) * share)

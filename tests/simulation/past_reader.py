"""Reads the offset history from a copy of the disk, as the next start would find it.

The simulation is unaffected. The queries are those of clients: all entries, the last change and the state
before it, and the offsets as of a time. The model checks the first; the others must agree with it.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.simulation.clock import SimulatedTime
from tests.simulation.plan import RETENTION_MS
from tests.simulation.requests import Violation

from headgate.core.offsets.history import (
    MOST_BETWEEN_SLICES_MS,
    Earlier,
    GroupHistory,
    HistoryEntry,
    HistoryQuery,
    PartitionHistory,
)
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.history.offset_history import OffsetHistory
from headgate.history.scan import scan
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.records import OffsetCommit
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics

EVERYTHING = 1_000_000
Partition = tuple[TopicName, int]


class PastReader:
    """The history on a copy of the disk without faults."""

    def __init__(
        self, disk: MemoryFileSystem, data_dir: Path, settings: Settings, time: SimulatedTime
    ) -> None:
        """Raises OSError if a start would."""
        files = MemoryFileSystem()
        files._root = deepcopy(disk._root)
        self._topics = Topics.open(files, data_dir, settings, time.system_time())
        self._history = OffsetHistory(self._topics, time)
        self._offsets = self._topics.by_name(GROUP_OFFSETS_TOPIC)
        if self._offsets is not None:
            self._history.open(self._offsets)

    def topic(self, name: TopicName) -> Topic | None:
        """Return the topic with a name."""
        return self._topics.by_name(name)

    def everything(self, group_id: GroupId) -> GroupHistory | None:
        """Return the whole history of a group; None if there is no log yet."""
        return self._ask(HistoryQuery(group_id, None, limit=EVERYTHING))

    def _ask(self, query: HistoryQuery) -> GroupHistory | None:
        if self._offsets is None:
            return None
        order = self._history._order(query, lambda: False, lambda history: history)
        if order is None:
            return None
        steps: Any = scan(order)
        try:
            while True:
                work = next(steps)
                if work is not None:
                    work()
        except StopIteration as stop:
            answer = stop.value
        assert isinstance(answer, GroupHistory)
        return answer

    def check_last_change(self, group_id: GroupId, all_told: GroupHistory) -> None:
        """Check that the last change is the newest one with the state before it. Raises Violation."""
        told = self._ask(HistoryQuery.last_change(group_id, None))
        assert told is not None
        changed = {_key(one): _put_back(one) for one in self._last_changed(all_told)}
        found = {_key(one): _put_back(one) for one in told.partitions}
        if found != changed:
            differing = {
                key: (found.get(key), changed.get(key))
                for key in found.keys() | changed.keys()
                if found.get(key) != changed.get(key)
            }
            raise Violation(f"the last change of group {group_id} and what it should be: {differing}")

    def _last_changed(self, all_told: GroupHistory) -> list[PartitionHistory]:
        """Return all changes of the newest record's time; for an expiry, also of the previous slices."""
        newest = max((one.entries[0] for one in all_told.partitions), default=None)
        if newest is None:
            return []
        changed = [one for one in all_told.partitions if one.entries[0].written == newest.written]
        if not any(one.entries[0] == newest and self._is_expired(one) for one in changed):
            return changed
        expired = [one for one in all_told.partitions if self._is_expired(one) and one not in changed]
        times = [newest.written]
        for one in sorted(expired, key=lambda one: one.entries[0].written, reverse=True):
            written = one.entries[0].written
            if min(times) - MOST_BETWEEN_SLICES_MS <= written <= newest.written:
                times.append(written)
                changed.append(one)
        return changed

    def _is_expired(self, partition: PartitionHistory) -> bool:
        """Return whether the offset that was removed last was old enough to expire."""
        if len(partition.entries) == 1:
            return False
        removal, before = partition.entries[0], partition.entries[1].commit
        if removal.commit is not None or before is None:
            return False
        if before.expire_timestamp != -1:
            return removal.written >= before.expire_timestamp
        return removal.written - before.commit_timestamp >= RETENTION_MS

    def check_as_of(self, group_id: GroupId, all_told: GroupHistory, time: Millis) -> None:
        """Check that the state as of a time is the one that was valid then. Raises Violation."""
        told = self._ask(HistoryQuery.as_of(group_id, None, time))
        assert told is not None
        found = {_key(one): one.entries[0].commit for one in told.partitions if one.entries}
        for one in all_told.partitions:
            commits = [entry.commit for entry in one.entries if entry.time <= time]
            in_force = commits[0] if commits else None
            # An offset that was removed long before that time may be missing.
            if found.get(_key(one)) != in_force:
                raise Violation(
                    f"the offset of group {group_id} in {_key(one)} as of {time} "
                    f"is {found.get(_key(one))}, and should be {in_force}"
                )


def _put_back(partition: PartitionHistory) -> tuple[HistoryEntry, OffsetCommit | str | None]:
    """Return the last change of a partition, and the value that an undo restores, before any removals."""
    newest, *before = partition.entries
    if before:
        return newest, before[0].commit
    return newest, None if partition.earlier is Earlier.NOTHING else "not known"


def _key(partition: PartitionHistory) -> Partition:
    return partition.topic, partition.partition

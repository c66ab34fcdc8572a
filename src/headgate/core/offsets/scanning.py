"""Scans all rows of the offset table, a stretch at a time, while the table changes.

The scan goes from the last row to the first. A dropped row is always replaced by a later row (`reclaiming`),
so no row that existed at the start is missed, though a row may be seen twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.core.offsets.columns import NONE
from headgate.core.offsets.key_names import KeyNames
from headgate.core.offsets.keys import GROUP_SHIFT, groups_of, topics_of
from headgate.core.offsets.rows import Rows
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY

ROWS_A_STRETCH: Final = 1 << 14
"""A stretch takes some tenths of a millisecond."""
_LATEST: Final = (1 << 63) - 1


class GroupsToSweep:
    """Finds groups with offsets that may have expired: an offset committed at or before a time, an offset
    with its own expiry time, or, for known groups, no offset at all.

    A group with offsets may be unknown: after a change of type it is unknown until its next commit. A result
    may be outdated, and groups that were added during the scan may be missing.
    """

    __slots__ = ("_aside", "_below", "_committed_by", "_has_any", "_has_old", "_rows")

    def __init__(self, rows: Rows, aside: dict[int, tuple[str, Millis]], committed_by: Millis) -> None:
        self._rows = rows
        self._aside = aside
        self._committed_by = committed_by
        self._below = len(rows.keys)
        self._has_any = np.zeros(len(rows.heads), np.bool_)
        self._has_old = np.zeros(len(rows.heads), np.bool_)

    def step(self) -> bool:
        """Scan some rows; return whether there are more."""
        rows, end = self._rows, min(self._below, len(self._rows.keys))
        self._below = first = max(end - ROWS_A_STRETCH, 0)
        keys = np.frombuffer(rows.keys, np.uint64)[first:end]
        counts = np.frombuffer(rows.nexts, np.int32)[first:end] >= NONE
        groups = groups_of(keys)
        counts &= groups < len(self._has_any)  # groups that were added since have none
        is_old = np.frombuffer(rows.timestamps, np.int64)[first:end] <= self._committed_by
        self._has_any[groups[counts]] = True
        self._has_old[groups[counts & is_old]] = True
        if self._aside:
            self._look_aside(keys[counts].tolist())
        return first > 0

    def _look_aside(self, keys: list[int]) -> None:
        aside = self._aside
        for key in keys:
            known = aside.get(key)
            if known is not None and known[1] != NO_EXPIRY:
                self._has_old[key >> GROUP_SHIFT] = True

    def groups(self) -> Int64s:
        """Return the group numbers, after the last row; `OffsetTable.group_ids_of` returns the ids."""
        is_known = self._rows.known_groups()[: len(self._has_any)]
        return np.flatnonzero(self._has_old | (~self._has_any & is_known))


class GroupAge(NamedTuple):
    """The commits of one group: times in ms. `aging_count` offsets have no expiry time of their own."""

    offset_count: int
    aging_count: int
    oldest: int
    """The oldest and the newest commit without an expiry time of its own."""
    newest: int
    first_expiry: int
    """The first and the last expiry time of those that have one."""
    last_expiry: int


class OffsetAges:
    """Finds for all groups how old their commits are. Groups that were added during the scan are missing."""

    __slots__ = ("_aside", "_below", "_counts", "_firsts", "_lasts", "_own", "_rows")

    def __init__(self, rows: Rows, aside: dict[int, tuple[str, Millis]]) -> None:
        self._rows = rows
        self._aside = aside
        self._below = len(rows.keys)
        count = len(rows.heads)
        self._counts = np.zeros(count, np.int64)
        self._firsts = np.full(count, _LATEST, np.int64)
        self._lasts = np.full(count, -1, np.int64)
        self._own: dict[int, list[int]] = {}
        """Expiry times of the offsets that have one, by group."""

    def step(self) -> bool:
        """Scan some rows; return whether there are more."""
        rows, end = self._rows, min(self._below, len(self._rows.keys))
        self._below = first = max(end - ROWS_A_STRETCH, 0)
        keys = np.frombuffer(rows.keys, np.uint64)[first:end]
        counts = np.frombuffer(rows.nexts, np.int32)[first:end] >= NONE
        counts &= groups_of(keys) < len(self._counts)
        keys, timestamps = keys[counts], np.frombuffer(rows.timestamps, np.int64)[first:end][counts]
        if self._aside:
            is_aging = self._without_own(keys)
            keys, timestamps = keys[is_aging], timestamps[is_aging]
        groups = groups_of(keys)
        self._counts += np.bincount(groups, minlength=len(self._counts))
        np.minimum.at(self._firsts, groups, timestamps)
        np.maximum.at(self._lasts, groups, timestamps)
        return first > 0

    def _without_own(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Keep the expiry times of these keys that have one; return which have none."""
        is_aging = np.ones(len(keys), np.bool_)
        aside = self._aside
        for place, key in enumerate(keys.tolist()):
            known = aside.get(key)
            if known is not None and known[1] != NO_EXPIRY:
                is_aging[place] = False
                self._own.setdefault(key >> GROUP_SHIFT, []).append(known[1])
        return is_aging

    def first_expiries(self, retention_ms: int) -> Int64s:
        """Return by group number when its first offset expires, if all age since their commits; after the
        last step. `_LATEST` for groups without offsets.
        """
        firsts = np.minimum(self._firsts, _LATEST - retention_ms) + retention_ms
        for group, expiries in self._own.items():
            firsts[group] = min(int(firsts[group]), *expiries)
        return firsts

    def of(self, group: int) -> GroupAge | None:
        """Return the age of the group with this number, after the last step; None if it had no offsets."""
        if group >= len(self._counts):
            return None
        own = self._own.get(group, ())
        aging_count = int(self._counts[group])
        if not aging_count and not own:
            return None
        return GroupAge(
            aging_count + len(own),
            aging_count,
            int(self._firsts[group]),
            int(self._lasts[group]),
            min(own, default=_LATEST),
            max(own, default=-1),
        )


class OffsetsOfTopic:
    """Finds the groups and partitions with an offset in a topic."""

    __slots__ = ("_below", "_names", "_rows", "_topic", "is_over")

    def __init__(self, rows: Rows, names: KeyNames, topic: TopicName) -> None:
        self._rows = rows
        self._names = names
        self._topic = topic
        self._below = len(rows.keys)
        self.is_over = False
        """Whether all rows were scanned."""

    def step(self, most: int) -> list[tuple[GroupId, int]]:
        """Scan some rows; return up to `most` groups and partitions."""
        rows, names = self._rows, self._names
        topic_ids = names.topic_ids(self._topic)
        end = min(self._below, len(rows.keys)) if len(topic_ids) else 0
        first = max(end - ROWS_A_STRETCH, 0)
        keys = np.frombuffer(rows.keys, np.uint64)[first:end]
        is_live = np.frombuffer(rows.nexts, np.int32)[first:end] >= NONE
        hits = np.flatnonzero(np.isin(topics_of(keys), topic_ids) & is_live)[-most:]
        self._below = first + int(hits[0]) if len(hits) == most else first
        self.is_over = self._below == 0
        found = keys[hits].tolist()
        partitions = [partition for _, partition in names.topic_partitions(found)]
        return [
            (names.group_id(key >> GROUP_SHIFT), partition)
            for key, partition in zip(found, partitions, strict=True)
        ]

"""The table of committed offsets: columns of numbers, at most 64 bytes an offset in total (R3.6).

`values.py` puts and finds the offsets of partitions. This module adds the groups, walks over many offsets,
images, and the drop of rows left behind.

The row of a removed offset is left behind, marked, and used again by the next commit of the same partition.
When rows left behind are an eighth of the table, they are dropped, a few at a time (`reclaiming`). A group is
known from its first offset until `forget_group`, also without offsets: Kafka keeps groups whose last offset
was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headgate.core.offsets import image
from headgate.core.offsets.columns import NONE
from headgate.core.offsets.held import held, held_from_now
from headgate.core.offsets.keys import PARTITION_BITS, topics_of
from headgate.core.offsets.lags import Ends, LagScan
from headgate.core.offsets.reclaiming import Reclaiming
from headgate.core.offsets.rows import Version
from headgate.core.offsets.scanning import GroupsToSweep, OffsetAges, OffsetsOfTopic
from headgate.core.offsets.snapshot import (
    NOTHING_ASIDE,
    AgesSnapshot,
    GroupSnapshot,
    TopicAges,
    TopicOffsets,
)
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.values import OffsetValues
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY
from headgate.records.offset_rows import OffsetRows

_ROWS_LEFT_BEHIND = 1024
_RECLAIMED_AT_ONCE: Final = 256
_LEFT_BEHIND_A_STEP: Final = 128
"""While rows are dropped, the next step runs after this many removals; a step drops more rows than that."""


class OffsetTable(OffsetValues):
    """Maps group, topic and partition to the committed offset."""

    __slots__ = (
        "_forgotten",
        "_holds",
        "_reclaim_at",
        "_reclaiming",
    )

    def __init__(self) -> None:
        super().__init__()
        self._holds = 0
        """Number of walks in progress that need rows and names to keep their numbers."""
        self._forgotten: dict[int, None] = {}
        """Groups that were forgotten without rows; their names are to be released."""
        self._reclaiming: Reclaiming | None = None
        """The drop of rows left behind, while one is in progress."""
        self._reclaim_at = _ROWS_LEFT_BEHIND
        """The number of rows left behind at which some are dropped."""

    # --- removal ---

    def put_rows(self, rows: OffsetRows) -> None:
        """Put and remove offsets; see `OffsetValues.put_rows`."""
        super().put_rows(rows)
        self._reclaim_if_due()

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Remove an offset; return whether there was one. The group stays known."""
        was_there = super().remove(group_id, topic, partition)
        self._reclaim_if_due()
        return was_there

    # --- groups ---

    @property
    def group_count(self) -> int:
        """Return the number of known groups."""
        return self._rows.group_count

    def has_group(self, group_id: GroupId) -> bool:
        """Return whether the group has committed and was not forgotten since."""
        group = self._names.groups.find(group_id.encode())
        return group is not None and self._rows.is_known(group)

    def group_ids(self) -> Iterator[GroupId]:
        """Yield every group that is known now and at its turn; the table may change meanwhile."""
        for group in np.flatnonzero(self._rows.known_groups()).tolist():
            if self._rows.is_known(group):
                yield self._names.group_id(group)

    def forgotten_groups(self) -> list[GroupId]:
        """Return every unknown group with offsets."""
        return [self._names.group_id(group) for group in self._rows.forgotten_groups()]

    def know_group(self, group_id: GroupId) -> None:
        """Make a group known that has no committed offset yet: its first offset is pending."""
        self.version = Version()
        self._rows.know(self._names.take_in_group(group_id))

    def changed(self) -> None:
        """Note a change of pending offsets: results of earlier fetches may be outdated."""
        self.version = Version()

    def forget_group(self, group_id: GroupId) -> None:
        """Make the group unknown. Keep its offsets, because a group may change its type."""
        group = self._names.groups.find(group_id.encode())
        if group is not None:
            self.version = Version()
            self._rows.forget(group)
            if self._rows.is_unused(group):
                self._forgotten[group] = None
                self._release_forgotten()

    def _release_forgotten(self) -> None:
        """Release the names of groups that were forgotten without rows, unless they are in use again."""
        if self._forgotten and not self._holds:
            forgotten, self._forgotten = self._forgotten, {}
            self._names.release([group for group in forgotten if self._rows.is_unused(group)], [])

    def offsets_of(self, group_id: GroupId) -> list[tuple[TopicName, int, StoredOffset]]:
        """Return all offsets of a group as topic, partition, offset; in no order."""
        group = self._names.groups.find(group_id.encode())
        if group is None:
            return []
        rows = list(self._rows.of_group(group))
        keys = self._rows.keys
        names = self._names.topic_partitions([keys[row] for row in rows])
        return [(*name, self._stored(row)) for name, row in zip(names, rows, strict=True)]

    def offset_count_of(self, group_id: GroupId, at_most: int) -> int:
        """Return the number of a group's offsets, at most `at_most`."""
        group = self._names.groups.find(group_id.encode())
        return 0 if group is None else sum(1 for _ in islice(self._rows.of_group(group), at_most))

    def all_by_topic(self, group_id: GroupId) -> Generator[None, None, list[tuple[TopicName, TopicOffsets]]]:
        """Return all offsets of a group as of now, topic by topic, in steps; the first step has been run.

        The table may change meanwhile; names keep their numbers until the steps end or are closed.
        """
        group = self._names.groups.find(group_id.encode())
        rows = self._rows.all_of_group(group) if group is not None else np.zeros(0, np.int64)
        keys, offsets, epochs, timestamps = self._rows.columns_of(rows)
        aside = self._aside
        listed = keys.tolist() if aside else []
        snapshot = GroupSnapshot(
            keys, offsets, epochs, timestamps, {key: aside[key] for key in listed if key in aside}
        )
        return held_from_now(self, snapshot.by_topic(self._names.topic_of))

    def ages_by_topic(self, group_id: GroupId) -> Generator[None, None, list[TopicAges]]:
        """Return the age of all offsets of a group as of now, in steps, as `all_by_topic` does."""
        group = self._names.groups.find(group_id.encode())
        rows = self._rows.all_of_group(group) if group is not None else np.zeros(0, np.int64)
        keys, _, _, timestamps = self._rows.columns_of(rows)
        own = np.full(len(keys), NO_EXPIRY, np.int64)
        if self._aside:
            own[:] = [self._aside.get(key, NOTHING_ASIDE)[1] for key in keys.tolist()]
        return held_from_now(self, AgesSnapshot(keys, timestamps, own).by_topic(self._names.topic_of))

    def walk(self, group_id: GroupId) -> Generator[tuple[TopicName, int, StoredOffset] | None, None, None]:
        """Yield the offsets of a group one by one, and None for each removed row; the table may change.

        Offsets that are added meanwhile may be missing. Until the walk is closed, rows keep their numbers.
        """
        return held(self, self._walk(group_id))

    def _walk(self, group_id: GroupId) -> Generator[tuple[TopicName, int, StoredOffset] | None, None, None]:
        group = self._names.groups.find(group_id.encode())
        if group is None:
            return
        keys = self._rows.keys
        for row in self._rows.walk(group):
            if row == NONE:
                yield None
            else:
                ((topic, partition),) = self._names.topic_partitions((keys[row],))
                yield topic, partition, self._stored(row)

    def hold(self) -> None:
        """Keep row numbers unchanged until `release` was called as many times."""
        self._holds += 1

    def release(self) -> None:
        """Allow row numbers to change again."""
        self._holds -= 1
        self._release_forgotten()

    @property
    def arrivals(self) -> int:
        """Return the total number of added offsets, without overwrites."""
        return self._rows.arrivals

    def has_offsets(self, group_id: GroupId) -> bool:
        """Return whether the group has an offset."""
        group = self._names.groups.find(group_id.encode())
        return group is not None and self._rows.has_any(group)

    # --- many at once ---

    def offsets_of_topic(self, topic: TopicName) -> OffsetsOfTopic:
        """Search in steps for the groups and partitions with an offset in a topic."""
        return OffsetsOfTopic(self._rows, self._names, topic)

    def topics_with_offsets(self) -> set[TopicName]:
        """Return the topics with a committed offset of any group."""
        ids = topics_of(self._rows.live_keys())
        has_any = np.zeros(ids.max(initial=-1) + 1, np.bool_)
        has_any[ids] = True
        keys = (np.flatnonzero(has_any) << PARTITION_BITS).tolist()
        return {topic for topic, _ in self._names.topic_partitions(keys)}

    def groups_to_sweep(self, committed_by: Millis) -> GroupsToSweep:
        """Search in steps for the groups with offsets that may have expired."""
        return GroupsToSweep(self._rows, self._aside, committed_by)

    def ages_of_groups(self) -> OffsetAges:
        """Search in steps for the oldest and the newest commit of every group. Hold the table meanwhile."""
        return OffsetAges(self._rows, self._aside)

    def lags(self, ends: Ends) -> LagScan:
        """Search in steps for the lags of all groups. Hold the table meanwhile."""
        return LagScan(self._rows, self._names, ends)

    def known_groups(self) -> NDArray[np.bool_]:
        """Return by group number whether the group is known."""
        return self._rows.known_groups()

    def number_of(self, group_id: GroupId) -> int | None:
        """Return the number of a group, for `OffsetAges`; None if it never committed."""
        return self._names.groups.find(group_id.encode())

    def group_ids_of(self, groups: Int64s) -> list[GroupId]:
        """Return the groups with these numbers, without groups that are unknown and have no offsets.

        A number may since belong to a new group.
        """
        return [self._names.group_id(group) for group in groups.tolist() if not self._rows.is_unused(group)]

    def forget_prefixes(self) -> None:
        """Clear the cache of key prefixes, after a log was read."""
        self._names.forget_prefixes()

    # --- images ---

    def image(self) -> Generator[tuple[str, bytes], None, None]:
        """Yield all of the table as parts, each with its kind; see `headgate.core.offsets.image`."""
        return held(self, self._image())

    def _image(self) -> Generator[tuple[str, bytes], None, None]:
        yield from image.parts_of(self._names.groups, self._names.topics, self._rows, self._aside)
        yield image.high_partitions_part(self._names.high_partitions)

    def restore(self, parts: Callable[[str], Iterable[bytes]], offset_count: int) -> Iterator[None]:
        """Restore an empty table from an image; `parts` returns the parts of a kind, in order.

        Other work may run between two steps. Raises MalformedImage.
        """
        yield from image.restore(
            self._names.groups, self._names.topics, self._rows, self._aside, parts, offset_count
        )
        self._names.restore_high_partitions(image.read_high_partitions(parts))

    # --- rows left behind ---

    def reclaim(self) -> bool:
        """Drop some rows left behind, if there are many; return whether to call it again soon.

        A step takes a few milliseconds at most, whatever the size of the table.
        """
        if self._reclaiming is None and self._rows.left_behind < self._reclaim_at:
            return False
        if not self._holds:
            self._reclaim()
        return self._reclaiming is not None or self._rows.left_behind >= self._reclaim_at

    def _reclaim_if_due(self) -> None:
        """Drop some rows left behind if they are many. Called by everything that leaves rows behind."""
        if self._rows.left_behind >= self._reclaim_at and not self._holds:
            self._reclaim()

    def _reclaim(self) -> None:
        if self._reclaiming is None:
            self._reclaiming = Reclaiming(self._rows)
        unused = self._reclaiming.step(_RECLAIMED_AT_ONCE)
        self._names.release(*unused)
        is_untidy = self._names.tidy(_RECLAIMED_AT_ONCE)
        if self._reclaiming.is_done and not is_untidy:
            self._reclaiming = None
            self._reclaim_at = _ROWS_LEFT_BEHIND + len(self) // 8
        else:
            self._reclaim_at = self._rows.left_behind + _LEFT_BEHIND_A_STEP

"""The table of committed offsets: columns of numbers, at most 64 bytes an offset in total (R3.6).

Each offset has one row (`rows`), found by a key of 64 bits: the number of the group, the number of the topic,
and the partition. Metadata and explicit expiry times, which are rare, are in a dict.

The row of a removed offset is left behind, marked, and used again by the next commit of the same partition.
When rows left behind are an eighth of the table, they are dropped, a few at a time (`reclaiming`). A group is
known from its first offset until `forget_group`, also without offsets: Kafka keeps groups whose last offset
was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, Final, cast

import numpy as np

from headgate.core.offsets import image
from headgate.core.offsets.columns import NONE
from headgate.core.offsets.held import held, held_from_now
from headgate.core.offsets.key_names import NO_BASE, KeyNames
from headgate.core.offsets.keys import GROUP_SHIFT, PARTITION_BITS, PARTITION_MASK, topics_of
from headgate.core.offsets.reclaiming import Reclaiming
from headgate.core.offsets.rows import Keys, Rows, Version
from headgate.core.offsets.scanning import GroupsToSweep, OffsetsOfTopic
from headgate.core.offsets.snapshot import GroupSnapshot, TopicOffsets, texts_of
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.wide_rows import NARROWEST_WIDE, WideRow
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import ColumnBatch, ColumnShape, OffsetBatch
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY, OffsetCommit
from headgate.records.offset_rows import OffsetRows

_ROWS_LEFT_BEHIND = 1024
_RECLAIMED_AT_ONCE: Final = 256
_LEFT_BEHIND_A_STEP: Final = 128
"""While rows are dropped, the next step runs after this many removals; a step drops more rows than that."""


class OffsetTable:
    """Maps group, topic and partition to the committed offset."""

    __slots__ = (
        "_aside",
        "_forgotten",
        "_holds",
        "_names",
        "_reclaim_at",
        "_reclaiming",
        "_rows",
        "version",
    )

    def __init__(self) -> None:
        self._rows = Rows()
        self._names = KeyNames(self._rows.add_group)
        self._aside: dict[int, tuple[str, Millis]] = {}
        """Metadata and explicit expiry time by key, for keys with either."""
        self._holds = 0
        """Number of walks in progress that need rows and names to keep their numbers."""
        self._forgotten: dict[int, None] = {}
        """Groups that were forgotten without rows; their names are to be released."""
        self._reclaiming: Reclaiming | None = None
        """The drop of rows left behind, while one is in progress."""
        self._reclaim_at = _ROWS_LEFT_BEHIND
        """The number of rows left behind at which some are dropped."""
        self.version = Version()
        """Replaced whenever an offset or a group is added, changed or removed."""

    # --- one offset ---

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, commit: OffsetCommit) -> None:
        """Add a committed offset, or overwrite the partition's previous one."""
        self.version = Version()
        key = self._key(commit.group_id, commit.topic, commit.partition)
        self._rows.put(key, commit.offset, commit.leader_epoch, commit.commit_timestamp)
        if commit.metadata or commit.expire_timestamp != NO_EXPIRY:
            self._aside[key] = (commit.metadata, commit.expire_timestamp)
        elif self._aside:
            self._aside.pop(key, None)

    def _key(self, group_id: GroupId, topic: TopicName, partition: int) -> int:
        """Return the key of a partition; intern its names."""
        base = self._names.recent.get((group_id, topic))
        if base is None or not 0 <= partition <= PARTITION_MASK:
            base, partition = self._names.take_in(group_id, topic, partition)
        return base | partition

    def put_batch(self, batch: OffsetBatch) -> None:
        """Put each offset; the rows of a shape are searched once and kept in the shape."""
        self.version = Version()
        rows, aside = self._rows, self._aside
        as_of = rows.numbering
        offsets, timestamps, epochs = rows.offsets, rows.timestamps, rows.epochs
        committed, now = batch.offsets, batch.commit_timestamp
        for index, shape in enumerate(batch.shapes):
            if shape.rows_as_of is as_of:
                row = shape.row
                offsets[row] = committed[index]
                timestamps[row] = now
                epochs[row] = shape.leader_epoch
            else:
                key = self._key(shape.group_id, shape.topic, shape.partition)
                shape.row = row = rows.put(key, committed[index], shape.leader_epoch, now)
                shape.rows_as_of = as_of
            if shape.metadata:
                aside[rows.keys[row]] = (shape.metadata, NO_EXPIRY)
            elif aside:
                aside.pop(rows.keys[row], None)

    def put_columns(self, batch: ColumnBatch) -> None:
        """Put each offset of a commit in columns."""
        shape = batch.shape
        self.version = Version()
        known = self._known_rows(shape)
        if known is not None and not shape.metadata and self._is_plain(known):
            known.put(self._rows, batch)
        elif len(batch) < NARROWEST_WIDE or _any_high(shape.partitions):
            for commit in batch.each():
                self.put(commit)
        else:
            shape.rows = WideRow(self._put_wide(batch), self._rows.numbering)

    def _known_rows(self, shape: ColumnShape) -> WideRow | None:
        """Return the remembered rows, if they are still the rows of these partitions."""
        known = shape.rows
        if known is None:
            return None
        rows = cast(WideRow, known)
        return rows if rows.as_of is self._rows.numbering else None

    def _is_plain(self, known: WideRow) -> bool:
        """Return whether none of these offsets has metadata or an explicit expiry time."""
        if not self._aside:
            return True
        return self._aside.keys().isdisjoint(np.frombuffer(self._rows.keys, np.uint64)[known.rows].tolist())

    def _put_wide(self, batch: ColumnBatch) -> Int64s:
        """Put many offsets at once; return their rows."""
        shape = batch.shape
        keys = np.uint64(self._key(shape.group_id, shape.topic, 0)) | shape.partitions.astype(np.uint64)
        timestamps = np.full(len(keys), batch.commit_timestamp)
        rows = self._rows.put_each(keys, batch.offsets, shape.leader_epochs.astype(np.int32), timestamps)
        if shape.metadata:
            self._aside.update(dict.fromkeys(keys.tolist(), (shape.metadata, NO_EXPIRY)))
        elif self._aside:
            for key in keys.tolist():
                self._aside.pop(key, None)
        return rows

    def put_rows(self, rows: OffsetRows) -> None:
        """Put and remove offsets of any groups and topics, in order.

        Raises MalformedRecord where the name of a group or topic is not valid.
        """
        if not len(rows):
            return
        self.version = Version()
        if _any_high(rows.partitions):
            self._put_one_by_one(rows)
            return
        is_gone = rows.is_gone
        has_gone = bool(is_gone.any())
        bases = self._names.bases_of(rows)
        if has_gone:
            has_base = bases[rows.stretch_of] != NO_BASE  # skip tombstones of unknown keys
            if not has_base.all():
                at = np.flatnonzero(has_base)
                if not len(at):
                    return
                rows, is_gone = rows.at(at), is_gone[at]
        keys = bases[rows.stretch_of] | rows.partitions.astype(np.uint64)
        offsets, epochs, timestamps = rows.offsets, rows.leader_epochs, rows.commit_timestamps
        if has_gone:
            comes = ~is_gone
            self._rows.put_each(keys[comes], offsets[comes], epochs[comes], timestamps[comes])
            self._rows.leave_each_behind(_last_gone(keys, is_gone))
        else:
            self._rows.put_each(keys, offsets, epochs, timestamps)
        if self._aside or rows.metadata or rows.expire_timestamp != NO_EXPIRY:
            self._set_aside(keys.tolist(), rows)
        if has_gone:
            self._reclaim_if_due()

    def _put_one_by_one(self, rows: OffsetRows) -> None:
        for change in rows.each():
            if isinstance(change, OffsetCommit):
                self.put(change)
            else:
                self.remove(change.group_id, change.topic, change.partition)

    def _set_aside(self, keys: list[int], rows: OffsetRows) -> None:
        metadata, expires, aside = rows.metadata, rows.expire_timestamp, self._aside
        none_gone = not rows.is_gone.any()
        if none_gone and expires != NO_EXPIRY and not metadata:
            aside.update(dict.fromkeys(keys, ("", expires)))
            return
        if none_gone and len(metadata) == len(keys):
            texts = (
                metadata.values() if _is_in_order(metadata) else [metadata[row] for row in range(len(keys))]
            )
            aside.update(zip(keys, zip(texts, repeat(expires)), strict=True))
            return
        gone = rows.is_gone.tolist()
        for row, key in enumerate(keys):
            text = metadata.get(row, "")
            if (text or expires != NO_EXPIRY) and not gone[row]:
                aside[key] = text, expires
            else:
                aside.pop(key, None)

    def get(self, group_id: GroupId, topic: TopicName, partition: int) -> StoredOffset | None:
        """Return the committed offset of a partition, or None."""
        row = self._row(group_id, topic, partition)
        return None if row < 0 else self._stored(row)

    def has(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Return whether a partition has a committed offset."""
        return self._row(group_id, topic, partition) >= 0

    def get_each(
        self, group_id: GroupId, topic: TopicName, partitions: Iterable[int]
    ) -> list[tuple[int, StoredOffset | None]]:
        """Return the committed offset, or None, of each of these partitions."""
        base = self._names.base_of(group_id, topic)
        found: list[tuple[int, StoredOffset | None]] = []
        for partition in partitions:
            if base is not None and 0 <= partition <= PARTITION_MASK:
                row = self._rows.find(base | partition)
                found.append((partition, self._stored(row) if row >= 0 else None))
            else:
                found.append((partition, self.get(group_id, topic, partition)))
        return found

    @property
    def numbering(self) -> Version:
        """Row numbers that were found remain valid while this object stays the same."""
        return self._rows.numbering

    def rows_of(self, group_id: GroupId, topic: TopicName, partitions: Iterable[int]) -> list[int] | None:
        """Return the row of each partition, NONE for one without an offset.

        Return None if the group is unknown or a partition does not fit into a key: use `get_each`.
        """
        rows = self._rows
        base = self._names.base_of(group_id, topic)
        if base is None or rows.heads[base >> GROUP_SHIFT] < NONE:
            return None
        found: list[int] = []
        for partition in partitions:
            if not 0 <= partition <= PARTITION_MASK:
                return None
            found.append(rows.find(base | partition))
        return found

    def numbers_at(self, found: list[int]) -> tuple[list[int], list[int]] | None:
        """Return the offset and the leader epoch of each row; -1 for NONE.

        Return None if one of the offsets has metadata: use `get_each`.
        """
        rows, aside = self._rows, self._aside
        offsets: list[int] = []
        epochs: list[int] = []
        for row in found:
            if row < 0:
                offsets.append(NONE)
                epochs.append(NONE)
            elif aside and rows.keys[row] in aside:
                return None
            else:
                offsets.append(rows.offsets[row])
                epochs.append(rows.epochs[row])
        return offsets, epochs

    def wide_row_of(self, group_id: GroupId, topic: TopicName, partitions: Int64s) -> WideRow | None:
        """Return the rows of many partitions, to be kept; None unless each partition has an offset."""
        base = self._names.base_of(group_id, topic)
        if base is None or self._rows.heads[base >> GROUP_SHIFT] < NONE or _any_high(partitions):
            return None
        found = self._rows.find_each(np.uint64(base) | partitions.astype(np.uint64))
        return None if (found < 0).any() else WideRow(found, self._rows.numbering)

    def columns_at(self, known: WideRow) -> tuple[Int64s, Int64s] | None:
        """Return offsets and leader epochs of these rows; None if one of the offsets has metadata."""
        return known.get(self._rows) if self._is_plain(known) else None

    def get_columns(
        self, group_id: GroupId, topic: TopicName, partitions: Int64s
    ) -> tuple[Int64s, Int64s, Int64s] | None:
        """Return partitions, offsets and leader epochs; -1 and -1 for a partition without an offset.

        Return None if the group or the topic is unknown, or one of the offsets has metadata: use `get_each`.
        """
        columns = self._rows
        base = self._names.base_of(group_id, topic)
        if base is None or columns.heads[base >> GROUP_SHIFT] < NONE or _any_high(partitions):
            return None
        keys = np.uint64(base) | partitions.astype(np.uint64)
        if self._aside and not self._aside.keys().isdisjoint(keys.tolist()):
            return None
        offsets, epochs = np.full((2, len(partitions)), NONE, np.int64)
        columns.read_each(keys, offsets, epochs)
        return partitions, offsets, epochs

    def get_wide(
        self, group_id: GroupId, topic: TopicName, partitions: Int64s
    ) -> tuple[Int64s, Int64s, Int64s, list[str]] | None:
        """As `get_columns`, with the metadata of each (empty if none has any), also for unknown names.

        Return None if a partition does not fit into a key: use `get_each`.
        """
        if _any_high(partitions):
            return None
        base = self._names.base_of(group_id, topic)
        offsets, epochs = np.full((2, len(partitions)), NONE, np.int64)
        if base is None:
            return partitions, offsets, epochs, []
        keys = np.uint64(base) | partitions.astype(np.uint64)
        self._rows.read_each(keys, offsets, epochs)
        return partitions, offsets, epochs, texts_of(keys.tolist(), self._aside)

    def get_offsets(self, group_id: GroupId, topic: TopicName, partitions: Int64s) -> Int64s:
        """Return the committed offset of each partition, with or without metadata; -1 for none."""
        if len(partitions) < NARROWEST_WIDE or _any_high(partitions):
            rows = [self._row(group_id, topic, partition) for partition in partitions.tolist()]
            return np.array([self._rows.offsets[row] if row >= 0 else NONE for row in rows], np.int64)
        base = self._names.base_of(group_id, topic)
        if base is None:
            return np.full(len(partitions), NONE)
        found = self._rows.find_each(np.uint64(base) | partitions.astype(np.uint64))
        has_any = found >= 0
        offsets = np.full(len(partitions), NONE)
        offsets[has_any] = np.frombuffer(self._rows.offsets, np.int64)[found[has_any]]
        return offsets

    def committed_among(self, group_id: GroupId, topic: TopicName, partitions: Sequence[int]) -> list[int]:
        """Return those of these partitions that have a committed offset, each once."""
        if len(partitions) >= NARROWEST_WIDE:
            numbers = np.unique(np.array(partitions, np.int64))
            if not _any_high(numbers):
                base = self._names.base_of(group_id, topic)
                if base is None:
                    return []
                rows = self._rows.find_each(np.uint64(base) | numbers.astype(np.uint64))
                committed: list[int] = numbers[rows >= 0].tolist()
                return committed
        return [one for one in dict.fromkeys(partitions) if self._row(group_id, topic, one) >= 0]

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Remove an offset; return whether there was one. The group stays known."""
        row = self._row(group_id, topic, partition)
        if row < 0:
            return False
        self.version = Version()
        self._rows.leave_behind(row)
        self._aside.pop(self._rows.keys[row], None)
        self._reclaim_if_due()
        return True

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

    def group_ids_of(self, groups: Int64s) -> list[GroupId]:
        """Return the groups with these numbers, without groups that are unknown and have no offsets.

        A number may since belong to a new group.
        """
        return [self._names.group_id(group) for group in groups.tolist() if not self._rows.is_unused(group)]

    def forget_prefixes(self) -> None:
        """Clear the cache of key prefixes, after a log was read."""
        self._names.forget_prefixes()

    # --- rows ---

    def _row(self, group_id: GroupId, topic: TopicName, partition: int) -> int:
        """Return the row of a live offset, or NONE; intern nothing."""
        key = self._names.key_of(group_id, topic, partition)
        return NONE if key is None else self._rows.find(key)

    def _stored(self, row: int) -> StoredOffset:
        rows = self._rows
        aside = self._aside and self._aside.get(rows.keys[row])
        metadata, expire_timestamp = aside or ("", NO_EXPIRY)
        timestamp: Millis = rows.timestamps[row]  # type: ignore[assignment]  # a call costs too much here
        return StoredOffset(rows.offsets[row], rows.epochs[row], metadata, timestamp, expire_timestamp)

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


def _any_high(partitions: Int64s) -> bool:
    """Return whether a partition does not fit into a key."""
    return bool(((partitions < 0) | (partitions > PARTITION_MASK)).any())


def _is_in_order(metadata: Mapping[int, str]) -> bool:
    """Return whether the texts are in the order of their rows, one for each row."""
    rows = np.fromiter(metadata, np.int64, len(metadata))
    return bool((rows[1:] > rows[:-1]).all())


def _last_gone(keys: Keys, is_gone: np.ndarray[Any, np.dtype[np.bool_]]) -> Keys:
    """Return the keys whose last row is a removal, each once."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    last = order[np.append(ordered[1:] != ordered[:-1], True)]
    gone: Keys = keys[last[is_gone[last]]]
    return gone

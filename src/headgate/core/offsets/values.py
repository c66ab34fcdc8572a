"""The committed offsets of partitions: put, found and removed by group, topic and partition.

Each offset has one row (`rows`), found by a key of 64 bits: the number of the group, the number of the topic,
and the partition. Metadata and explicit expiry times, which are rare, are in a dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, cast

import numpy as np

from headgate.core.offsets.columns import NONE
from headgate.core.offsets.key_names import NO_BASE, KeyNames
from headgate.core.offsets.keys import GROUP_SHIFT, PARTITION_BITS, PARTITION_MASK
from headgate.core.offsets.rows import Keys, Rows, Version
from headgate.core.offsets.snapshot import texts_of
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.wide_rows import NARROWEST_WIDE, WideRow
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import ColumnBatch, ColumnShape, OffsetBatch
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY, OffsetCommit
from headgate.records.offset_rows import OffsetRows


class OffsetValues:
    """Committed offsets by group, topic and partition: one at a time, in lists, and in columns."""

    __slots__ = ("_aside", "_names", "_rows", "version")

    def __init__(self) -> None:
        self._rows = Rows()
        self._names = KeyNames(self._rows.add_group)
        self._aside: dict[int, tuple[str, Millis]] = {}
        """Metadata and explicit expiry time by key, for keys with either."""
        self.version = Version()
        """Replaced whenever an offset or a group is added, changed or removed."""

    # --- putting ---

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

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Remove an offset; return whether there was one. The group stays known."""
        row = self._row(group_id, topic, partition)
        if row < 0:
            return False
        self.version = Version()
        self._rows.leave_behind(row)
        self._aside.pop(self._rows.keys[row], None)
        return True

    # --- one offset ---

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
        names, find = self._names, self._rows.find
        bases = {0: names.base_of(group_id, topic)}
        found: list[tuple[int, StoredOffset | None]] = []
        for partition in partitions:
            high = partition >> PARTITION_BITS
            if high not in bases:
                bases[high] = names.base_of_high(group_id, topic, high)
            base = bases[high]
            row = NONE if base is None else find(base | partition & PARTITION_MASK)
            found.append((partition, self._stored(row) if row >= 0 else None))
        return found

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

    # --- many offsets ---

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

    def get_rows(self, rows: OffsetRows) -> Int64s:
        """Return the committed offset of the partition of each row, -1 for none; intern names as `put_rows`.

        Raises MalformedRecord where the name of a group or topic is not valid.
        """
        offsets = np.full(len(rows), NONE, np.int64)
        if _any_high(rows.partitions):
            for at, row in enumerate(rows.each()):
                stored = self.get(row.group_id, row.topic, row.partition)
                offsets[at] = NONE if stored is None else stored.offset
            return offsets
        keys = self._names.bases_of(rows)[rows.stretch_of] | rows.partitions.astype(np.uint64)
        found = self._rows.find_each(keys)
        has_any = found >= 0
        offsets[has_any] = np.frombuffer(self._rows.offsets, np.int64)[found[has_any]]
        return offsets

    def get_offsets(self, group_id: GroupId, topic: TopicName, partitions: Int64s) -> Int64s:
        """Return the committed offset of each partition, with or without metadata; -1 for none."""
        if len(partitions) < NARROWEST_WIDE or _any_high(partitions):
            stored = self.get_each(group_id, topic, partitions.tolist())
            return np.array([NONE if one is None else one.offset for _, one in stored], np.int64)
        base = self._names.base_of(group_id, topic)
        if base is None:
            return np.full(len(partitions), NONE)
        found = self._rows.find_each(np.uint64(base) | partitions.astype(np.uint64))
        has_any = found >= 0
        offsets = np.full(len(partitions), NONE)
        offsets[has_any] = np.frombuffer(self._rows.offsets, np.int64)[found[has_any]]
        return offsets

    def get_offset(self, group_id: GroupId, topic: TopicName, partition: int) -> int:
        """Return the committed offset of a partition, with or without metadata; -1 for none."""
        row = self._row(group_id, topic, partition)
        return self._rows.offsets[row] if row >= 0 else NONE

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

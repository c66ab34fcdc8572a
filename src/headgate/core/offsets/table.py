"""The table of committed offsets: columns of numbers, at most 64 bytes an offset, all counted (R3.6).

One row an offset, 32 bytes: key, offset, commit timestamp, leader epoch, and the next row of the same group.
The key packs the interned group and topic and the partition into 64 bits. An open-addressed index of row
numbers (6 to 7 bytes an offset) finds a row by its key. Metadata and explicit expiry, which few offsets
have, stand aside in a dict. Columns are `array`s: reading and writing one number takes half of what numpy
takes, and numpy works on the same memory where many are touched at once.

A removed offset leaves its row behind, marked, to be revived by the next commit of the same partition; when
rows left behind are an eighth of the table it is built anew. A group is known from its first offset until
`forget_group`, also when its last offset is gone: Kafka's groups survive their last offset.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from headgate.core.offsets.columns import (
    FREE,
    HASH_FACTOR,
    HASH_SHIFT,
    NONE,
    build_index,
    chains,
    column,
    flip,
)
from headgate.core.offsets.keys import (
    GROUP_SHIFT,
    MOST_GROUPS,
    MOST_TOPICS,
    PARTITION_BITS,
    PARTITION_MASK,
    TOPIC_MASK,
    groups_of,
    new_numbers,
    renumbered,
    topics_of,
)
from headgate.core.offsets.names import Names
from headgate.core.offsets.wide_rows import NARROWEST_WIDE, WideRows
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.columns import Int64s, OffsetCommits
from headgate.records.model import NO_EXPIRY, OffsetCommit

_MASK64 = (1 << 64) - 1
_SMALLEST_INDEX = 64
_HIGHEST_LOAD = 0.7
_GROWTH = 1.25
_ROWS_LEFT_BEHIND = 1024
_CACHED_BASES = 1024
_HIGH_PARTITION_MARK = b"\xff"
"""Never part of UTF-8: stands between a topic's name and the high part of a partition out of range."""


class OffsetTableFull(Exception):
    """More groups or topics in one shard than a key has room for (16 million, 4 million)."""


class StoredOffset(NamedTuple):
    """What is known of one committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis


class OffsetTable:
    """Group, topic and partition to committed offset."""

    __slots__ = (
        "_aside",
        "_bases",
        "_epochs",
        "_group_count",
        "_groups",
        "_heads",
        "_high_partitions",
        "_home_slots",
        "_index",
        "_keys",
        "_left_behind",
        "_nexts",
        "_offsets",
        "_timestamps",
        "_topics",
        "_wide_rows",
    )

    def __init__(self) -> None:
        self._groups, self._topics = Names(), Names()
        self._keys, self._offsets, self._timestamps = array("Q"), array("q"), array("q")
        self._epochs, self._nexts = array("i"), array("i")
        """`nexts` links the rows of a group; a marked link is that of a row left behind."""
        self._heads = array("i")
        """A group's first row; a marked link is that of a group that is not known (any more)."""
        self._home_slots = _SMALLEST_INDEX
        self._index = build_index(np.empty(0, np.uint64), _SMALLEST_INDEX)
        self._aside: dict[int, tuple[str, Millis]] = {}
        """Key to metadata and explicit expiry, where there is either."""
        self._bases: dict[tuple[str, str], int] = {}
        """Recently used groups and topics: their key but for the partition."""
        self._high_partitions: dict[int, tuple[TopicName, int]] = {}
        """Topic ids that stand for a topic and the high part of a partition, as good as never needed."""
        self._wide_rows = WideRows()
        self._left_behind = 0
        self._group_count = 0

    # --- one offset ---

    def __len__(self) -> int:
        return len(self._keys) - self._left_behind

    def put(self, commit: OffsetCommit) -> None:
        """Take a committed offset in, over the partition's previous one if there is one."""
        partition = commit.partition
        base = self._bases.get((commit.group_id, commit.topic))
        if base is None or not 0 <= partition <= PARTITION_MASK:
            base, partition = self._intern_base(commit.group_id, commit.topic, partition)
        key = base | partition
        row = self._find(key)
        if row < 0:
            row = self._add_row(key, commit)
        else:
            self._offsets[row] = commit.offset
            self._timestamps[row] = commit.commit_timestamp
            self._epochs[row] = commit.leader_epoch
            if self._nexts[row] < NONE:
                self._nexts[row] = flip(self._nexts[row])
                self._left_behind -= 1
        group = key >> GROUP_SHIFT
        if self._heads[group] < NONE:
            self._heads[group] = flip(self._heads[group])
            self._group_count += 1
        if commit.metadata or commit.expire_timestamp != NO_EXPIRY:
            self._aside[key] = (commit.metadata, commit.expire_timestamp)
        elif self._aside:
            self._aside.pop(key, None)

    def put_columns(self, commits: OffsetCommits) -> None:
        """Take the offsets of many partitions in: the same as `put` for each.

        The rows of a wide commit are found once and remembered, for it will come again.
        """
        name = commits.group_id, commits.topic
        rows = self._wide_rows.get(name, commits.partitions)
        if rows is None or commits.metadata or self._aside or not self.has_group(commits.group_id):
            for commit in commits.each():
                self.put(commit)
            if len(commits) >= NARROWEST_WIDE:
                found = [self._row(*name, partition) for partition in commits.partitions.tolist()]
                self._wide_rows.remember(name, commits.partitions, found)
            return
        # Of a partition that stands twice the last value stays: arrays are assigned in order.
        np.frombuffer(self._offsets, np.int64)[rows] = commits.offsets
        np.frombuffer(self._timestamps, np.int64)[rows] = commits.commit_timestamp
        np.frombuffer(self._epochs, np.int32)[rows] = commits.leader_epochs

    def get(self, group_id: GroupId, topic: TopicName, partition: int) -> StoredOffset | None:
        """The committed offset of a partition, or None."""
        row = self._row(group_id, topic, partition)
        return None if row < 0 else self._stored(row)

    def get_each(
        self, group_id: GroupId, topic: TopicName, partitions: Iterable[int]
    ) -> list[tuple[int, StoredOffset | None]]:
        """The committed offset, or None, of each of these partitions."""
        base = self._base(group_id, topic)
        found: list[tuple[int, StoredOffset | None]] = []
        for partition in partitions:
            if base is not None and 0 <= partition <= PARTITION_MASK:
                row = self._find(base | partition)
                is_there = row >= 0 and self._nexts[row] >= NONE
                found.append((partition, self._stored(row) if is_there else None))
            else:
                found.append((partition, self.get(group_id, topic, partition)))
        return found

    def get_numbers(self, group_id: GroupId, topic: TopicName, partitions: Iterable[int]) -> list[int] | None:
        """Offset and leader epoch of each partition, in turn; -1 and -1 for one without.

        None if the group is not known or one of the offsets has metadata: `get_each` tells.
        """
        base = self._base(group_id, topic)
        if base is None or self._heads[base >> GROUP_SHIFT] < NONE:
            return None
        numbers: list[int] = []
        for partition in partitions:
            if not 0 <= partition <= PARTITION_MASK:
                return None
            row = self._find(base | partition)
            if row < 0 or self._nexts[row] < NONE:
                numbers += (NONE, NONE)
            elif self._aside and base | partition in self._aside:
                return None
            else:
                numbers += (self._offsets[row], self._epochs[row])
        return numbers

    def get_columns(
        self, group_id: GroupId, topic: TopicName, partitions: Int64s
    ) -> tuple[Int64s, Int64s, Int64s] | None:
        """Partitions, offsets and leader epochs, if all these partitions have an offset without metadata.

        None if not, or if finding that out is no quicker than `get_each`.
        """
        rows = self._wide_rows.get((group_id, topic), partitions)
        if rows is None or self._aside:
            return None
        offsets = np.frombuffer(self._offsets, np.int64)[rows]
        return partitions, offsets, np.frombuffer(self._epochs, np.int32)[rows].astype(np.int64)

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Let an offset go; whether there was one. The group stays known."""
        row = self._row(group_id, topic, partition)
        if row < 0:
            return False
        self._nexts[row] = flip(self._nexts[row])
        self._aside.pop(self._keys[row], None)
        self._wide_rows.forget((group_id, topic))
        self._left_behind += 1
        if self._left_behind > _ROWS_LEFT_BEHIND + len(self) // 8:
            self._rebuild()
        return True

    # --- groups ---

    @property
    def group_count(self) -> int:
        """How many groups are known."""
        return self._group_count

    def has_group(self, group_id: GroupId) -> bool:
        """Whether the group ever committed and was not forgotten since."""
        group = self._groups.find(group_id.encode())
        return group is not None and self._heads[group] >= NONE

    def group_ids(self) -> Iterator[GroupId]:
        """Every known group."""
        for group, head in enumerate(self._heads):
            if head >= NONE:
                yield GroupId(self._groups.text(group).decode())

    def forget_group(self, group_id: GroupId) -> None:
        """The group is no longer known. Its offsets, if any are left, stay: a group may change its type."""
        group = self._groups.find(group_id.encode())
        if group is not None and self._heads[group] >= NONE:
            self._heads[group] = flip(self._heads[group])
            self._group_count -= 1

    def offsets_of(self, group_id: GroupId) -> list[tuple[TopicName, int, StoredOffset]]:
        """All offsets of a group as topic, partition, offset; in no order."""
        found: list[tuple[TopicName, int, StoredOffset]] = []
        group = self._groups.find(group_id.encode())
        if group is None:
            return found
        names: dict[int, tuple[TopicName, int]] = {}
        head = self._heads[group]
        row = head if head >= NONE else flip(head)
        while row != NONE:
            following = self._nexts[row]
            if following >= NONE:
                topic, partition = self._topic_partition(self._keys[row], names)
                found.append((topic, partition, self._stored(row)))
                row = following
            else:
                row = flip(following)
        return found

    # --- many at once ---

    def offsets_of_topic(self, topic: TopicName, committed_by: Millis) -> list[tuple[GroupId, int]]:
        """Which groups and partitions have an offset in a topic that was committed at or before a time."""
        ids = [high for high, (name, _) in self._high_partitions.items() if name == topic]
        plain = self._topics.find(topic.encode())
        if plain is not None:
            ids.append(plain)
        if not ids:
            return []
        keys = np.frombuffer(self._keys, np.uint64)
        is_hit = np.isin(topics_of(keys), np.array(ids, np.int64))
        is_hit &= np.frombuffer(self._nexts, np.int32) >= NONE
        is_hit &= np.frombuffer(self._timestamps, np.int64) <= committed_by
        hits = keys[is_hit]
        names: dict[int, tuple[TopicName, int]] = {}
        return [(self._group_id(key), self._topic_partition(key, names)[1]) for key in hits.tolist()]

    def groups_to_sweep(self, committed_by: Millis) -> list[GroupId]:
        """Known groups that may have something to expire: an offset committed at or before a time, an offset
        with an expiry of its own, or no offset at all.
        """
        keys = self._live_keys()
        timestamps = np.frombuffer(self._timestamps, np.int64)
        nexts = np.frombuffer(self._nexts, np.int32)
        is_old = timestamps[nexts >= NONE] <= committed_by
        wanted = np.zeros(len(self._heads), np.bool_)
        wanted[groups_of(keys[is_old])] = True
        has_any = np.zeros(len(self._heads), np.bool_)
        has_any[groups_of(keys)] = True
        wanted |= ~has_any
        for key, (_, expire_timestamp) in self._aside.items():
            if expire_timestamp != NO_EXPIRY:
                wanted[key >> GROUP_SHIFT] = True
        wanted &= np.frombuffer(self._heads, np.int32) >= NONE
        return [GroupId(self._groups.text(group).decode()) for group in np.flatnonzero(wanted).tolist()]

    # --- keys and rows ---

    def _intern_base(self, group_id: GroupId, topic: TopicName, partition: int) -> tuple[int, int]:
        """The key but for the partition, and the partition as it goes into the key; names are taken in."""
        group = self._groups.intern(group_id.encode())
        if group == len(self._heads):
            self._heads.append(flip(NONE))
        name, low = topic.encode(), partition & PARTITION_MASK
        high = partition >> PARTITION_BITS
        topic_id = self._topics.intern(self._high_name(name, high) if high else name)
        if group >= MOST_GROUPS or topic_id >= MOST_TOPICS:
            raise OffsetTableFull(f"{group} groups, {topic_id} topics")
        base: int = group << GROUP_SHIFT | topic_id << PARTITION_BITS
        if high:
            self._high_partitions[topic_id] = (topic, high)
        else:
            self._remember(group_id, topic, base)
        return base, low

    def _remember(self, group_id: GroupId, topic: TopicName, base: int) -> None:
        if len(self._bases) >= _CACHED_BASES:
            self._bases.clear()
        self._bases[group_id, topic] = base

    @staticmethod
    def _high_name(name: bytes, high: int) -> bytes:
        return name + _HIGH_PARTITION_MARK + str(high).encode()

    def _base(self, group_id: GroupId, topic: TopicName) -> int | None:
        """The key but for a partition that is in range, or None; no name is taken in."""
        base = self._bases.get((group_id, topic))
        if base is None:
            group, topic_id = self._groups.find(group_id.encode()), self._topics.find(topic.encode())
            if group is None or topic_id is None:
                return None
            base = group << GROUP_SHIFT | topic_id << PARTITION_BITS
            self._remember(group_id, topic, base)
        return base

    def _row(self, group_id: GroupId, topic: TopicName, partition: int) -> int:
        """The row of a live offset, or -1; no name is taken in."""
        if 0 <= partition <= PARTITION_MASK:
            base = self._base(group_id, topic)
        else:
            group = self._groups.find(group_id.encode())
            high_name = self._high_name(topic.encode(), partition >> PARTITION_BITS)
            topic_id = self._topics.find(high_name)
            if group is None or topic_id is None:
                return NONE
            base = group << GROUP_SHIFT | topic_id << PARTITION_BITS
        if base is None:
            return NONE
        row = self._find(base | partition & PARTITION_MASK)
        return row if row >= 0 and self._nexts[row] >= NONE else NONE

    def _find(self, key: int) -> int:
        """The row of a key, live or left behind, or -1."""
        index, keys = self._index, self._keys
        slot = ((((key ^ key >> HASH_SHIFT) * HASH_FACTOR & _MASK64) >> 32) * self._home_slots) >> 32
        row = index[slot]
        while row != FREE:
            if keys[row] == key:
                return row
            slot += 1
            row = index[slot]
        return NONE

    def _add_row(self, key: int, commit: OffsetCommit) -> int:
        row = len(self._keys)
        if row >= _HIGHEST_LOAD * self._home_slots:
            self._build_index(row + 1)
        slot = ((((key ^ key >> HASH_SHIFT) * HASH_FACTOR & _MASK64) >> 32) * self._home_slots) >> 32
        while self._index[slot] != FREE:
            slot += 1
        self._keys.append(key)
        self._offsets.append(commit.offset)
        self._timestamps.append(commit.commit_timestamp)
        self._epochs.append(commit.leader_epoch)
        group = key >> GROUP_SHIFT
        head = self._heads[group]
        if head >= NONE:
            self._nexts.append(head)
            self._heads[group] = row
        else:
            self._nexts.append(flip(head))
            self._heads[group] = flip(row)
        if slot >= len(self._index) - 1:  # the last slot stays free: it ends every probe
            self._build_index(row + 1)
        else:
            self._index[slot] = row
        return row

    def _stored(self, row: int) -> StoredOffset:
        aside = self._aside and self._aside.get(self._keys[row])
        metadata, expire_timestamp = aside or ("", NO_EXPIRY)
        timestamp: Millis = self._timestamps[row]  # type: ignore[assignment]  # a call costs too much here
        return StoredOffset(self._offsets[row], self._epochs[row], metadata, timestamp, expire_timestamp)

    def _group_id(self, key: int) -> GroupId:
        return GroupId(self._groups.text(key >> GROUP_SHIFT).decode())

    def _topic_partition(self, key: int, names: dict[int, tuple[TopicName, int]]) -> tuple[TopicName, int]:
        """What a key's lower part means; `names` keeps what was looked up before."""
        topic_id = key >> PARTITION_BITS & TOPIC_MASK
        known = names.get(topic_id)
        if known is None:
            known = self._high_partitions.get(topic_id)
            if known is None:
                known = TopicName(self._topics.text(topic_id).decode()), 0
            names[topic_id] = known
        topic, high = known
        return topic, high << PARTITION_BITS | key & PARTITION_MASK

    # --- building anew ---

    def _live_keys(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        keys = np.frombuffer(self._keys, np.uint64)
        if not self._left_behind:
            return keys.copy()
        return keys[np.frombuffer(self._nexts, np.int32) >= NONE]

    def _build_index(self, row_count: int) -> None:
        """Place every row into an index with room for `row_count` and some growth."""
        self._home_slots = max(_SMALLEST_INDEX, int(row_count * _GROWTH / _HIGHEST_LOAD))
        self._index = build_index(np.frombuffer(self._keys, np.uint64), self._home_slots)

    def _rebuild(self) -> None:
        """Drop the rows left behind and the names that nothing uses any more."""
        is_live = np.frombuffer(self._nexts, np.int32) >= NONE
        keys = np.frombuffer(self._keys, np.uint64)[is_live]
        is_known = np.frombuffer(self._heads, np.int32) >= NONE
        keeps_group = is_known | (np.bincount(groups_of(keys), minlength=len(is_known)) > 0)
        keeps_topic = np.bincount(topics_of(keys), minlength=len(self._topics)) > 0
        new_groups, new_topics = new_numbers(keeps_group), new_numbers(keeps_topic)
        aside = np.fromiter(self._aside, np.uint64, len(self._aside))
        self._aside = dict(
            zip(renumbered(aside, new_groups, new_topics).tolist(), self._aside.values(), strict=True)
        )
        self._high_partitions = {
            int(new_topics[topic_id]): high
            for topic_id, high in self._high_partitions.items()
            if keeps_topic[topic_id]
        }
        self._groups.retain(np.flatnonzero(keeps_group).tolist())
        self._topics.retain(np.flatnonzero(keeps_topic).tolist())
        keys = renumbered(keys, new_groups, new_topics)
        heads, nexts = chains(groups_of(keys), is_known[keeps_group])
        self._offsets = column("q", np.frombuffer(self._offsets, np.int64)[is_live])
        self._timestamps = column("q", np.frombuffer(self._timestamps, np.int64)[is_live])
        self._epochs = column("i", np.frombuffer(self._epochs, np.int32)[is_live])
        self._keys, self._heads, self._nexts = column("Q", keys), column("i", heads), column("i", nexts)
        self._bases.clear()
        self._wide_rows.clear()
        self._left_behind = 0
        self._build_index(len(self._keys))

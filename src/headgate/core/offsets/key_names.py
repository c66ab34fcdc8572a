"""What the keys of the offset table stand for: groups, topics, and partitions too high for a key.

Of a key the part above the partition is its base: a group's number and a topic's. Those used of late are
remembered by the names they stand for, and while a log is read by how its records' keys begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from headgate.core.offsets.keys import (
    GROUP_SHIFT,
    MOST_GROUPS,
    MOST_TOPICS,
    PARTITION_BITS,
    PARTITION_MASK,
    TOPIC_MASK,
)
from headgate.core.offsets.names import Names
from headgate.core.offsets.rows import Keys
from headgate.domain.ids import GroupId, TopicName
from headgate.records.columns import Int64s
from headgate.records.offset_commit import names_of
from headgate.records.offset_rows import OffsetRows, split_prefix

NO_BASE = (1 << 64) - 1
"""Stands for a group or a topic that is not known. No base: the bits of its partition are not empty."""

_REMEMBERED_BASES = 512
_REMEMBERED_PREFIXES = 1 << 15
_HIGH_PARTITION_MARK = b"\xff"
"""Never part of UTF-8: stands between a topic's name and the high part of a partition out of range."""


class OffsetTableFull(Exception):
    """More groups or topics in one shard than a key has room for (16 million, 4 million)."""


class KeyNames:
    """Names to keys, and back."""

    __slots__ = ("_add_group", "_by_prefix", "groups", "high_partitions", "recent", "topics")

    def __init__(self, add_group: Callable[[int], None]) -> None:
        """`add_group` is told the number of each group whose name is taken in."""
        self._add_group = add_group
        self.groups, self.topics = Names(), Names()
        self.high_partitions: dict[int, tuple[TopicName, int]] = {}
        """Topic ids that stand for a topic and the high part of a partition, as good as never needed."""
        self.recent: dict[tuple[str, str], int] = {}
        """The bases of groups and topics that were used of late."""
        self._by_prefix: dict[bytes, int] = {}

    # --- from names to keys ---

    def take_in(self, group_id: GroupId, topic: TopicName, partition: int) -> tuple[int, int]:
        """The base, and the partition as it goes into the key. Raises OffsetTableFull."""
        name, low = topic.encode(), partition & PARTITION_MASK
        high = partition >> PARTITION_BITS
        base = self._take_in(group_id.encode(), _high_name(name, high) if high else name)
        if high:
            self.high_partitions[base >> PARTITION_BITS & TOPIC_MASK] = (topic, high)
        else:
            self._remember(group_id, topic, base)
        return base, low

    def _take_in(self, group_name: bytes, topic_name: bytes) -> int:
        group, topic_id = self.groups.intern(group_name), self.topics.intern(topic_name)
        self._add_group(group)
        if group >= MOST_GROUPS or topic_id >= MOST_TOPICS:
            raise OffsetTableFull(f"{group} groups, {topic_id} topics")
        return _base(group, topic_id)

    def _remember(self, group_id: GroupId, topic: TopicName, base: int) -> None:
        if len(self.recent) >= _REMEMBERED_BASES:
            self.recent.clear()
        self.recent[group_id, topic] = base

    def base_of(self, group_id: GroupId, topic: TopicName) -> int | None:
        """The base of partitions that are in range, or None; no name is taken in."""
        base = self.recent.get((group_id, topic))
        if base is None:
            base = self._find(group_id.encode(), topic.encode())
            if base is not None:
                self._remember(group_id, topic, base)
        return base

    def key_of(self, group_id: GroupId, topic: TopicName, partition: int) -> int | None:
        """The key of any partition, or None; no name is taken in."""
        if 0 <= partition <= PARTITION_MASK:
            base = self.base_of(group_id, topic)
        else:
            base = self._find(group_id.encode(), _high_name(topic.encode(), partition >> PARTITION_BITS))
        return None if base is None else base | partition & PARTITION_MASK

    def _find(self, group_name: bytes, topic_name: bytes) -> int | None:
        group, topic_id = self.groups.find(group_name), self.topics.find(topic_name)
        return None if group is None or topic_id is None else _base(group, topic_id)

    # --- for those who read logs ---

    def bases_of(self, rows: OffsetRows) -> Keys:
        """For each stretch of rows its base; NO_BASE where names are not known.

        Names are taken in where something is committed. Raises MalformedRecord where a name does not read.
        """
        get = self._by_prefix.get
        bases = [get(prefix, NO_BASE) for prefix in rows.prefixes]
        if NO_BASE in bases:
            commits = np.zeros(len(bases), np.bool_)
            commits[rows.stretch_of[~rows.is_gone]] = True
            for stretch in [at for at, base in enumerate(bases) if base == NO_BASE]:
                bases[stretch] = self._base_of_prefix(rows.prefixes[stretch], is_new=bool(commits[stretch]))
        return np.array(bases, np.uint64)

    def _base_of_prefix(self, prefix: bytes, *, is_new: bool) -> int:
        known = self._by_prefix.get(prefix)
        if known is not None:
            return known
        group_name, topic_name = split_prefix(prefix)
        try:
            group_name.decode(), topic_name.decode()
        except UnicodeDecodeError:
            names_of(prefix)  # says so
        base = self._take_in(group_name, topic_name) if is_new else self._find(group_name, topic_name)
        if base is None:
            return NO_BASE
        if len(self._by_prefix) >= _REMEMBERED_PREFIXES:
            self._by_prefix.clear()
        self._by_prefix[prefix] = base
        return base

    def forget_prefixes(self) -> None:
        """Whoever read a log is done with it."""
        self._by_prefix.clear()

    # --- and back ---

    def group_id(self, group: int) -> GroupId:
        """The group with this number."""
        return GroupId(self.groups.text(group).decode())

    def topic_ids(self, topic: TopicName) -> Int64s:
        """The numbers that stand for a topic, with whatever high parts of partitions."""
        ids = [high for high, (name, _) in self.high_partitions.items() if name == topic]
        plain = self.topics.find(topic.encode())
        return np.array(ids if plain is None else [*ids, plain], np.int64)

    def topic_of(self, topic_id: int) -> tuple[TopicName, int]:
        """The topic that a number stands for, and the high part of its partitions."""
        known = self.high_partitions.get(topic_id)
        return (TopicName(self.topics.text(topic_id).decode()), 0) if known is None else known

    def topic_partitions(self, keys: Sequence[int]) -> Iterator[tuple[TopicName, int]]:
        """The topic and partition of each key."""
        names: dict[int, tuple[TopicName, int]] = {}
        for key in keys:
            topic_id = key >> PARTITION_BITS & TOPIC_MASK
            known = names.get(topic_id)
            if known is None:
                known = names[topic_id] = self.topic_of(topic_id)
            topic, high = known
            yield topic, high << PARTITION_BITS | key & PARTITION_MASK

    # --- from an image ---

    def restore_high_partitions(self, found: Mapping[int, tuple[TopicName, int]]) -> None:
        """Take in what an image says, once its names are there.

        A partition that came while the image was taken may be in this part of it and have no name in it: its
        number is then free, and whoever gets it next is something else.
        """
        self.high_partitions = {
            topic_id: (name, high)
            for topic_id, (name, high) in found.items()
            if self.topics.find(_high_name(name.encode(), high)) == topic_id
        }

    # --- names that are not used any more ---

    def release(self, groups: Sequence[int], topics: Sequence[int]) -> None:
        """Let names go that nothing uses any more, and all that was remembered of them."""
        if not groups and not topics:
            return
        self.groups.release(groups)
        self.topics.release(topics)
        for topic_id in topics:
            self.high_partitions.pop(topic_id, None)
        self.recent.clear()
        self._by_prefix.clear()

    def tidy(self, count: int) -> bool:
        """Do away with what so many released names left; whether there is more of it."""
        is_untidy = [names.tidy(count) for names in (self.groups, self.topics)]
        return any(is_untidy)


def _base(group: int, topic_id: int) -> int:
    return group << GROUP_SHIFT | topic_id << PARTITION_BITS


def _high_name(name: bytes, high: int) -> bytes:
    return name + _HIGH_PARTITION_MARK + str(high).encode()

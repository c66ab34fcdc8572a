"""The groups and topics of the offset table's keys, and partitions too high for a key.

The base of a key is the part above the partition: a group number and a topic number. A cache holds recently
used bases by group and topic; another holds them by key prefix while a log is read.
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
"""The base of an unknown group or topic. No real base has this value, because its partition bits are zero."""

_REMEMBERED_BASES = 512
_REMEMBERED_PREFIXES = 1 << 15
_HIGH_PARTITION_MARK = b"\xff"
"""Separates a topic's name from the high part of a partition out of range; never part of UTF-8."""


class OffsetTableFull(Exception):
    """A shard has more groups (16 million) or topics (4 million) than a key can number."""


class KeyNames:
    """Maps names to keys, and keys to names."""

    __slots__ = ("_add_group", "_by_prefix", "groups", "high_partitions", "recent", "topics")

    def __init__(self, add_group: Callable[[int], None]) -> None:
        """`add_group` is called with the number of each new group."""
        self._add_group = add_group
        self.groups, self.topics = Names(), Names()
        self.high_partitions: dict[int, tuple[TopicName, int]] = {}
        """Topic numbers that represent a topic and the high part of a partition; almost never needed."""
        self.recent: dict[tuple[str, str], int] = {}
        """The bases of recently used groups and topics."""
        self._by_prefix: dict[bytes, int] = {}

    # --- from names to keys ---

    def take_in(self, group_id: GroupId, topic: TopicName, partition: int) -> tuple[int, int]:
        """Return the base and the partition's low part; intern new names. Raises OffsetTableFull."""
        name, low = topic.encode(), partition & PARTITION_MASK
        high = partition >> PARTITION_BITS
        base = self._take_in(group_id.encode(), _high_name(name, high) if high else name)
        if high:
            self.high_partitions[base >> PARTITION_BITS & TOPIC_MASK] = (topic, high)
        else:
            self._remember(group_id, topic, base)
        return base, low

    def take_in_group(self, group_id: GroupId) -> int:
        """Return the number of a group; intern a new one. Raises OffsetTableFull."""
        group = self.groups.intern(group_id.encode())
        self._add_group(group)
        if group >= MOST_GROUPS:
            raise OffsetTableFull(f"{group} groups")
        return group

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
        """Return the base of partitions in range, or None if a name is unknown; intern nothing."""
        base = self.recent.get((group_id, topic))
        if base is None:
            base = self._find(group_id.encode(), topic.encode())
            if base is not None:
                self._remember(group_id, topic, base)
        return base

    def key_of(self, group_id: GroupId, topic: TopicName, partition: int) -> int | None:
        """Return the key of any partition, or None if a name is unknown; intern nothing."""
        high = partition >> PARTITION_BITS
        base = self.base_of_high(group_id, topic, high) if high else self.base_of(group_id, topic)
        return None if base is None else base | partition & PARTITION_MASK

    def base_of_high(self, group_id: GroupId, topic: TopicName, high: int) -> int | None:
        """Return the base of partitions with these high bits, which are not 0; intern nothing."""
        return self._find(group_id.encode(), _high_name(topic.encode(), high))

    def _find(self, group_name: bytes, topic_name: bytes) -> int | None:
        group, topic_id = self.groups.find(group_name), self.topics.find(topic_name)
        return None if group is None or topic_id is None else _base(group, topic_id)

    # --- reading a log ---

    def bases_of(self, rows: OffsetRows) -> Keys:
        """Return the base of each stretch of rows; NO_BASE for unknown names.

        Intern the names of stretches with a commit. Raises MalformedRecord if a name is not valid UTF-8.
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
            names_of(prefix)  # raises MalformedRecord
        base = self._take_in(group_name, topic_name) if is_new else self._find(group_name, topic_name)
        if base is None:
            return NO_BASE
        if len(self._by_prefix) >= _REMEMBERED_PREFIXES:
            self._by_prefix.clear()
        self._by_prefix[prefix] = base
        return base

    def forget_prefixes(self) -> None:
        """Clear the cache of key prefixes, after a log was read."""
        self._by_prefix.clear()

    # --- from keys to names ---

    def group_id(self, group: int) -> GroupId:
        """Return the group with this number."""
        return GroupId(self.groups.text(group).decode())

    def topic_ids(self, topic: TopicName) -> Int64s:
        """Return the numbers that represent a topic, with any high part of partitions."""
        ids = [high for high, (name, _) in self.high_partitions.items() if name == topic]
        plain = self.topics.find(topic.encode())
        return np.array(ids if plain is None else [*ids, plain], np.int64)

    def topic_of(self, topic_id: int) -> tuple[TopicName, int]:
        """Return the topic of a topic number, and the high part of its partitions."""
        known = self.high_partitions.get(topic_id)
        return (TopicName(self.topics.text(topic_id).decode()), 0) if known is None else known

    def topic_partitions(self, keys: Sequence[int]) -> Iterator[tuple[TopicName, int]]:
        """Yield the topic and partition of each key."""
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
        """Add the high partitions of an image, after its names.

        A partition that was added while the image was written may be in this part without a name in the
        image. Its number is then free and may be used for another name.
        """
        self.high_partitions = {
            topic_id: (name, high)
            for topic_id, (name, high) in found.items()
            if self.topics.find(_high_name(name.encode(), high)) == topic_id
        }

    # --- unused names ---

    def release(self, groups: Sequence[int], topics: Sequence[int]) -> None:
        """Release names that are no longer used, and their cache entries."""
        if not groups and not topics:
            return
        self.groups.release(groups)
        self.topics.release(topics)
        for topic_id in topics:
            self.high_partitions.pop(topic_id, None)
        self.recent.clear()
        self._by_prefix.clear()

    def tidy(self, count: int) -> bool:
        """Clean up after `count` released names; return whether more are left."""
        is_untidy = [names.tidy(count) for names in (self.groups, self.topics)]
        return any(is_untidy)


def _base(group: int, topic_id: int) -> int:
    return group << GROUP_SHIFT | topic_id << PARTITION_BITS


def _high_name(name: bytes, high: int) -> bytes:
    return name + _HIGH_PARTITION_MARK + str(high).encode()

"""The topics as groups know them: their ids and numbers of partitions.

The topics are owned elsewhere. Commands bring this copy, which is volatile, and sent again after every load;
before that a shard knows no topic.
"""

from __future__ import annotations

from collections.abc import KeysView, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from headgate.domain.ids import TopicId, TopicName

_HASH_BYTES = 8
_MOST_KEPT = 256

KeptT = TypeVar("KeptT")


class KnownTopic(NamedTuple):
    """The id and the number of partitions of a topic."""

    topic_id: TopicId
    partition_count: int


class TopicChange(NamedTuple):
    """A new or changed topic; `topic` is None for a deleted one."""

    name: TopicName
    topic: KnownTopic | None


@dataclass(slots=True, frozen=True)
class TopicsChanged:
    """Change the shard's topics; the first time, all there are. No reply."""

    changes: Sequence[TopicChange]


class TopicImage:
    """All topics, by name and by id."""

    __slots__ = ("_by_name", "_hashes", "_ids", "_names")

    def __init__(self) -> None:
        self._by_name: dict[TopicName, KnownTopic] = {}
        self._names: dict[TopicId, TopicName] = {}
        self._ids: dict[frozenset[TopicName], frozenset[TopicId]] = {}
        self._hashes: dict[frozenset[TopicName], int] = {}
        """Results for the current topics; members that join mostly have the same names."""

    def change(self, change: TopicChange) -> Sequence[TopicId]:
        """Apply one change; return the id of the topic that it removes, if it removes one."""
        self._ids.clear()
        self._hashes.clear()
        known = self._by_name.pop(change.name, None)
        if known is not None:
            self._names.pop(known.topic_id, None)
        if change.topic is not None:
            self._by_name[change.name] = change.topic
            self._names[change.topic.topic_id] = change.name
        is_gone = known is not None and (change.topic is None or change.topic.topic_id != known.topic_id)
        return (known.topic_id,) if known is not None and is_gone else ()

    def find(self, name: TopicName) -> KnownTopic | None:
        """Return the topic of that name; None if there is none."""
        return self._by_name.get(name)

    def as_now(self) -> dict[TopicName, KnownTopic]:
        """Return a copy of the topics by name, which later changes do not affect."""
        return dict(self._by_name)

    def names(self) -> KeysView[TopicName]:
        """Return the names of all topics."""
        return self._by_name.keys()

    def name_of(self, topic_id: TopicId) -> TopicName | None:
        """Return the name of the topic with that id; None if it was deleted."""
        return self._names.get(topic_id)

    def ids_of(self, names: frozenset[TopicName]) -> frozenset[TopicId]:
        """Return the ids of those topics that exist."""
        ids = self._ids.get(names)
        if ids is None:
            by_name = self._by_name
            ids = frozenset(by_name[name].topic_id for name in names if name in by_name)
            _keep(self._ids, names, ids)
        return ids

    def hash_of(self, names: frozenset[TopicName]) -> int:
        """Return a number that changes when any of these topics does; 0 if none of them exists.

        64 bits, signed, as it is stored in records.
        """
        number = self._hashes.get(names)
        if number is None:
            number = self._hash(names)
            _keep(self._hashes, names, number)
        return number

    def _hash(self, names: frozenset[TopicName]) -> int:
        digest = blake2b(digest_size=_HASH_BYTES)
        is_any = False
        for name in sorted(names):
            topic = self._by_name.get(name)
            if topic is not None:
                is_any = True
                digest.update(f"{len(name)} {name} {topic.partition_count} ".encode() + topic.topic_id)
        return int.from_bytes(digest.digest(), "big", signed=True) if is_any else 0


def _keep(kept: dict[frozenset[TopicName], KeptT], names: frozenset[TopicName], value: KeptT) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[names] = value

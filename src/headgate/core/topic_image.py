"""What groups need to know of the topics: their ids and how many partitions they have.

The topics belong to somebody else; what is known of them here came in commands, is volatile, and is told anew
after every load. A shard that was told nothing knows no topic.
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
    """A topic as it is now."""

    topic_id: TopicId
    partition_count: int


class TopicChange(NamedTuple):
    """A topic is new, has other partitions, or is gone: then `topic` is None."""

    name: TopicName
    topic: KnownTopic | None


@dataclass(slots=True, frozen=True)
class TopicsChanged:
    """Topics are not what the shard knew; the first time, all there are. No reply."""

    changes: Sequence[TopicChange]


class TopicImage:
    """The topics there are, by name and by id."""

    __slots__ = ("_by_name", "_hashes", "_ids", "_names")

    def __init__(self) -> None:
        self._by_name: dict[TopicName, KnownTopic] = {}
        self._names: dict[TopicId, TopicName] = {}
        self._ids: dict[frozenset[TopicName], frozenset[TopicId]] = {}
        self._hashes: dict[frozenset[TopicName], int] = {}
        """What was asked of the topics as they are now; members that join all ask the same."""

    def change(self, change: TopicChange) -> None:
        """Take one change in."""
        self._ids.clear()
        self._hashes.clear()
        known = self._by_name.pop(change.name, None)
        if known is not None:
            self._names.pop(known.topic_id, None)
        if change.topic is not None:
            self._by_name[change.name] = change.topic
            self._names[change.topic.topic_id] = change.name

    def find(self, name: TopicName) -> KnownTopic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def as_now(self) -> dict[TopicName, KnownTopic]:
        """The topics by name as they are now and stay in what is returned."""
        return dict(self._by_name)

    def names(self) -> KeysView[TopicName]:
        """The names of all topics."""
        return self._by_name.keys()

    def name_of(self, topic_id: TopicId) -> TopicName | None:
        """The name of the topic with that id; None when it is gone."""
        return self._names.get(topic_id)

    def ids_of(self, names: frozenset[TopicName]) -> frozenset[TopicId]:
        """The ids of those topics that there are."""
        ids = self._ids.get(names)
        if ids is None:
            by_name = self._by_name
            ids = frozenset(by_name[name].topic_id for name in names if name in by_name)
            _keep(self._ids, names, ids)
        return ids

    def hash_of(self, names: frozenset[TopicName]) -> int:
        """A number that changes when any of these topics does; 0 when there is none of them.

        64 bits, signed: it is kept in records.
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

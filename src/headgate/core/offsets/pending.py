"""Offsets that producers committed in transactions which are still open.

1. An offset waits by producer id, group, topic and partition. A later one of the same producer replaces it.
2. A commit marker makes it the committed offset, unless a later commit of the partition is in the log: of no
   transaction, or of another producer whose transaction was committed first. An abort marker drops it.
3. Such a later commit leaves the pending offset without a value (None). It still waits: as long as the
   transaction is open, the partition has no stable offset and does not expire.
4. A tombstone removes the pending offsets of its partition, of all producers.

The order of commits is the order of their records in the log, whatever the order of the markers. Only pending
offsets know their positions: a committed offset needs none, because every commit that follows a pending
offset is noted with it.

A change may have a hundred thousand offsets, a transaction any number: `putting`, `noting` and `ending` work
in steps, each of about `STEP` offsets. Between two steps nothing else may be asked or changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Final, NamedTuple

from headgate.core.contract import Producer
from headgate.core.offsets.pending_holders import Holders, Place
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change, ColumnBatch, OffsetBatch, OffsetCommit, OffsetTombstone
from headgate.records.model import NO_EXPIRY
from headgate.records.offset_commit import KEY_STARTS, key_prefix
from headgate.records.offset_rows import OffsetRows

STEP: Final = 1000
"""Maximum of offsets that one step changes."""
_ROWS_AT_ONCE: Final = 1 << 14
_START_BYTES: Final = 2
_FEW: Final = 16
"""A producer with more pending offsets in a place is a wide one after a restart."""


class PendingOffset(NamedTuple):
    """One offset of an open transaction. `position` is the log offset of its record."""

    position: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis


Partitions = dict[int, PendingOffset | None]
"""The pending offset of each partition; None if a later commit is in the log."""


class OpenTransaction:
    """The pending offsets of one producer."""

    __slots__ = ("epoch", "places")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        """The highest producer epoch of its records."""
        self.places: dict[Place, Partitions] = {}


class PendingOffsets:
    """The offsets of all open transactions of one shard."""

    __slots__ = ("_by_producer", "_holders", "_prefixes", "_topics", "by_place")

    def __init__(self) -> None:
        self.by_place: dict[Place, dict[int, Partitions]] = {}
        """The same offsets by group and topic, then by producer id. Empty if nothing is pending."""
        self._by_producer: dict[int, OpenTransaction] = {}
        self._holders = Holders()
        self._topics: dict[GroupId, dict[TopicName, None]] = {}
        """The topics of each group with a pending offset."""
        self._prefixes: dict[bytes, Place] = {}
        """The places by the prefix of their keys, in all versions of keys."""

    def __len__(self) -> int:
        """Return the number of pending offsets, with and without a value."""
        return sum(len(one) for producers in self.by_place.values() for one in producers.values())

    # --- reading ---

    def epoch_of(self, producer_id: int) -> int | None:
        """Return the epoch of a producer's pending offsets; None if it has none."""
        known = self._by_producer.get(producer_id)
        return None if known is None else known.epoch

    def group_ids(self) -> list[GroupId]:
        """Return the groups with a pending offset."""
        return list(self._topics)

    def topics(self) -> set[TopicName]:
        """Return the topics with a pending offset of any group."""
        return {topic for topics in self._topics.values() for topic in topics}

    def has_group(self, group_id: GroupId) -> bool:
        """Return whether a group has a pending offset."""
        return group_id in self._topics

    def partitions_of(self, group_id: GroupId, topic: TopicName) -> set[int]:
        """Return the partitions of a topic with a pending offset of the group."""
        place = group_id, topic
        return self._holders.few(place).union(
            *(self.by_place[place][one] for one in self._holders.wide(place))
        )

    def among(self, group_id: GroupId, topic: TopicName, partitions: Collection[int]) -> set[int]:
        """Return those of these partitions with a pending offset of the group."""
        place = group_id, topic
        if place not in self.by_place:
            return set()
        wanted = set(partitions)
        holders = self._holding(place, wanted)
        return wanted.intersection(chain.from_iterable(one.keys() & wanted for _, one in holders))

    def has(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Return whether a partition has a pending offset of the group."""
        place = group_id, topic
        producers = self.by_place.get(place)
        return producers is not None and any(
            partition in producers[one] for one in self._holders.of_any(place, (partition,))
        )

    def of_group(self, group_id: GroupId) -> dict[TopicName, set[int]]:
        """Return the partitions with a pending offset of a group."""
        return {topic: self.partitions_of(group_id, topic) for topic in self._topics.get(group_id, ())}

    def of_topic(self, topic: TopicName) -> Iterator[tuple[GroupId, int]]:
        """Yield the groups and partitions with a pending offset in a topic, each once."""
        for group_id, other in list(self.by_place):
            if other == topic:
                for partition in self.partitions_of(group_id, topic):
                    yield group_id, partition

    # --- the records of transactions ---

    def put(self, change: Change, position: int, producer: Producer) -> Iterable[GroupId]:
        """Add the offsets of a change, whose first record is at `position`; return their groups."""
        if type(change) is OffsetCommit:
            self._put_one(change, position, producer)
            return (change.group_id,)
        steps = self.putting(change, position, producer)
        return {group_id for group_ids in steps for group_id in group_ids}

    def putting(self, change: Change, position: int, producer: Producer) -> Iterator[Collection[GroupId]]:
        """Do the same in steps; yield the groups of each step."""
        if isinstance(change, ColumnBatch):
            place = change.shape.group_id, change.shape.topic
            yield from self._widening(producer, place)
            for some in _slices(len(change)):
                self._put_columns(change, some, position, producer)
                yield (place[0],)
            return
        each = enumerate(_commits_of(change), position)
        while commits := list(islice(each, STEP)):
            for at, commit in commits:
                self._put_one(commit, at, producer)
            yield {commit.group_id for _, commit in commits}

    def _put_one(self, commit: OffsetCommit, position: int, producer: Producer) -> None:
        place = commit.group_id, commit.topic
        self._partitions(producer, place)[commit.partition] = _pending(commit, position)
        self._holders.hold(producer.producer_id, place, (commit.partition,))

    def _widening(self, producer: Producer, place: Place) -> Iterator[Collection[GroupId]]:
        """Make a producer a wide one at a place, in steps."""
        producer_id = producer.producer_id
        if producer_id not in self._holders.wide(place):
            narrow = list(self._partitions(producer, place))
            for some in _slices(len(narrow)):
                self._holders.let_go(producer_id, place, narrow[some])
                yield ()
            self._holders.widen(producer_id, place)

    def _put_columns(self, batch: ColumnBatch, some: slice, position: int, producer: Producer) -> None:
        """Put some offsets of a batch, whose first one is at `position`."""
        shape = batch.shape
        numbers = shape.partitions[some].tolist()
        rows = zip(
            range(position + some.start, position + some.stop),
            batch.offsets[some].tolist(),
            shape.leader_epochs[some].tolist(),
            repeat(shape.metadata),
            repeat(batch.commit_timestamp),
            repeat(NO_EXPIRY),
            strict=False,
        )
        partitions = self._partitions(producer, (shape.group_id, shape.topic))
        partitions.update(zip(numbers, map(PendingOffset._make, rows), strict=True))

    def _partitions(self, producer: Producer, place: Place) -> Partitions:
        """Return the pending offsets of a producer at a place, to add to them."""
        producer_id, epoch = producer
        known = self._by_producer.get(producer_id)
        if known is None:
            self._by_producer[producer_id] = known = OpenTransaction(epoch)
        elif epoch > known.epoch:
            known.epoch = epoch
        partitions = known.places.get(place)
        if partitions is None:
            partitions = known.places[place] = {}
            self._add(producer_id, place, partitions)
        return partitions

    def _add(self, producer_id: int, place: Place, partitions: Partitions) -> None:
        producers = self.by_place.get(place)
        if producers is None:
            self.by_place[place] = producers = {}
            self._topics.setdefault(place[0], {})[place[1]] = None
            for prefix in _prefixes_of(place):
                self._prefixes[prefix] = place
        producers[producer_id] = partitions

    def _holding(self, place: Place, partitions: Collection[int]) -> list[tuple[int, Partitions]]:
        """Return the producers that may have a pending offset of one of these partitions."""
        producers = self.by_place[place]
        return [(one, producers[one]) for one in self._holders.of_any(place, partitions)]

    def _discard(self, producer_id: int, place: Place) -> None:
        """Remove a producer without pending offsets from a place, and the place if it was the only one."""
        producers = self.by_place[place]
        del producers[producer_id]
        self._holders.discard(producer_id, place)
        if producers:
            return
        del self.by_place[place]
        self._holders.forget(place)
        topics = self._topics[place[0]]
        del topics[place[1]]
        if not topics:
            del self._topics[place[0]]
        for prefix in _prefixes_of(place):
            del self._prefixes[prefix]

    def ending(
        self, producer_id: int, position: int, *, is_committed: bool
    ) -> Iterator[tuple[Place, dict[int, PendingOffset]]]:
        """Remove the pending offsets of a producer in steps; yield those that are committed from now on.

        `position` is that of the marker. Offsets behind it belong to the next transaction: an image that was
        copied later had them, and the log that is applied to it has them again.
        """
        known = self._by_producer.pop(producer_id, None)
        for place, partitions in known.places.items() if known is not None else ():
            while partitions:
                some = [partitions.popitem() for _ in range(min(len(partitions), STEP))]
                self._holders.let_go(producer_id, place, [partition for partition, _ in some])
                values: dict[int, PendingOffset] = {}
                if is_committed:
                    some.reverse()
                    values = {
                        partition: one
                        for partition, one in some
                        if one is not None and one.position < position
                    }
                    for _, others in self._holding(place, values):
                        _outdate(others, values)
                if not partitions:
                    self._discard(producer_id, place)
                yield place, values

    # --- other records ---

    def note(self, change: Change) -> None:
        """Note the commits and tombstones of a change that is part of no transaction."""
        for _ in self.noting(change):
            pass

    def noting(self, change: Change) -> Iterator[None]:
        """Do the same in steps."""
        match change:
            case OffsetBatch():
                yield from self._noting_batch(change)
            case ColumnBatch():
                place = change.shape.group_id, change.shape.topic
                if place in self.by_place:
                    for some in _slices(len(change)):
                        self._outdate_each(place, change.shape.partitions[some].tolist())
                        yield
            case OffsetCommit(group_id, topic, partition):
                self._outdate_each((group_id, topic), (partition,))
            case OffsetTombstone(group_id, topic, partition):
                self._remove_each((group_id, topic), (partition,))
            case OffsetRows():
                yield from self._noting_rows(change)

    def _noting_rows(self, rows: OffsetRows) -> Iterator[None]:
        if self._prefixes.keys().isdisjoint(rows.prefixes):
            return
        for stretch, prefix in enumerate(rows.prefixes):
            place = self._prefixes.get(prefix)
            if place is None:
                continue
            first, end = rows.stretch_of.searchsorted((stretch, stretch + 1)).tolist()
            # A removal has precedence over a commit of the same partition, whichever is first.
            partitions, is_gone = rows.partitions[first:end], rows.is_gone[first:end]
            committed, removed = partitions[~is_gone], partitions[is_gone]
            for some in _slices(len(committed)):
                self._outdate_each(place, committed[some].tolist())
                yield
            for some in _slices(len(removed)):
                self._remove_each(place, removed[some].tolist())
                yield

    def _noting_batch(self, batch: OffsetBatch) -> Iterator[None]:
        for some in _slices(len(batch)):
            committed: dict[Place, list[int]] = {}
            for shape in batch.shapes[some]:
                place = (shape.group_id, shape.topic)
                if place in self.by_place:
                    committed.setdefault(place, []).append(shape.partition)
            for place, partitions in committed.items():
                self._outdate_each(place, partitions)
            yield

    def _outdate_each(self, place: Place, committed: Collection[int]) -> None:
        """Take the values of the pending offsets of some partitions, of all producers."""
        if place not in self.by_place or not committed:
            return
        as_set = set(committed)
        for _, partitions in self._holding(place, as_set):
            for partition in partitions.keys() & as_set:
                partitions[partition] = None

    def _remove_each(self, place: Place, removed: Collection[int]) -> None:
        """Remove the pending offsets of some partitions, of all producers."""
        if place not in self.by_place or not removed:
            return
        as_set = set(removed)
        for producer_id, partitions in self._holding(place, as_set):
            gone = partitions.keys() & as_set
            for partition in gone:
                del partitions[partition]
            self._holders.let_go(producer_id, place, gone)
            if not partitions:
                self._discard(producer_id, place)
                known = self._by_producer[producer_id]
                del known.places[place]
                if not known.places:
                    del self._by_producer[producer_id]

    # --- images ---

    def copy(self) -> list[tuple[Producer, Place, Partitions]]:
        """Return all pending offsets as of now."""
        return [
            (Producer(producer_id, known.epoch), place, dict(partitions))
            for producer_id, known in self._by_producer.items()
            for place, partitions in known.places.items()
        ]

    def restore(self, producer: Producer, place: Place, partitions: Partitions) -> None:
        """Add pending offsets of a copy."""
        known = self._partitions(producer, place)
        if len(partitions) > _FEW:
            for _ in self._widening(producer, place):
                pass
        known.update(partitions)
        self._holders.hold(producer.producer_id, place, partitions)


def _pending(commit: OffsetCommit, position: int) -> PendingOffset:
    return PendingOffset(
        position,
        commit.offset,
        commit.leader_epoch,
        commit.metadata,
        commit.commit_timestamp,
        commit.expire_timestamp,
    )


def _commits_of(change: Change) -> Iterator[OffsetCommit]:
    """Yield the commits of a change, which are part of a transaction."""
    if isinstance(change, OffsetRows) and len(change) > _ROWS_AT_ONCE:
        for at in range(0, len(change), _ROWS_AT_ONCE):
            yield from _commits_of(change.between(at, at + _ROWS_AT_ONCE))
        return
    for one in change.each() if isinstance(change, OffsetBatch | OffsetRows) else (change,):
        assert isinstance(one, OffsetCommit), f"{type(one).__name__} is no offset of a transaction"
        yield one


def _slices(count: int) -> Iterator[slice]:
    """Yield the parts of so many offsets that belong to one step each."""
    for first in range(0, count, STEP):
        yield slice(first, min(first + STEP, count))


def _prefixes_of(place: Place) -> list[bytes]:
    names = key_prefix(*place)[_START_BYTES:]
    return [start + names for start in KEY_STARTS]


def _outdate(others: Partitions, committed: Mapping[int, PendingOffset]) -> None:
    """Take the value of pending offsets that are before those that were committed now."""
    for partition in others.keys() & committed.keys():
        other = others[partition]
        if other is not None and other.position < committed[partition].position:
            others[partition] = None

"""The past committed offsets of a group, reconstructed from the records of its shard.

Records are given by segment, the newest segment first; within a segment the oldest record first. Segments of
the log come before segments of the log's history. Rules:

1. A record counts once, by its offset in the log, even if it is found several times.
2. If records of a partition are missing, they are older than all that are present. So the state at a time is
   the last record up to it. Without a record there was no offset, unless the time is before `known_since`.
3. A record that repeats the previous value after a crash is no change: the same value and commit time, or a
   removal where there was no offset.
4. The time of a commit is its commit timestamp; the time of a removal is the timestamp of its record.
5. All changes of one request are one change with one time. An expiry is also one change, but consists of
   slices with different times: removals of a group that follow each other closely are one change if each
   removed an offset that was old enough to expire.
6. Offsets are stored by topic name. A commit from before the current topic of that name was created belongs
   to a former topic and is reported as such (`TopicLife`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import takewhile
from typing import NamedTuple

from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, Millis, TopicId, TopicName
from headgate.records import ChangeAuthor, OffsetCommit, OffsetTombstone
from headgate.records.model import NO_EXPIRY

FIRST_TIME = Millis(-1)
LAST_TIME = Millis(2**63 - 1)
MOST_ENTRIES = 500_000
"""Maximum number of entries collected for one query. With many partitions, fewer entries of each are kept."""

MOST_BETWEEN_SLICES_MS = 1000
"""Removals at most this far apart are slices of one expiry; the sweep pauses for a few ms between slices."""

_BEFORE_AND_AFTER = 2
_NOWHERE: frozenset[int] = frozenset()

HistoryScope = Sequence[tuple[TopicName, Sequence[int] | None]] | None


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """A query of a group's history."""

    group_id: GroupId
    topics: HistoryScope
    """None: every partition with known entries; the same for the partitions of a topic."""
    since: Millis = FIRST_TIME
    until: Millis = LAST_TIME
    limit: int = 1
    """Maximum number of entries of each partition, the newest ones; at least 1."""
    is_as_of: bool = False
    """Only the state at `until`; requires a limit of 1."""
    is_last_change: bool = False
    """Only the partitions of the newest change in scope: that change and the previous state."""
    retention_ms: int | None = None
    """The retention of offsets, to recognize an expiry; None: each time is a separate change."""

    @property
    def least_entries(self) -> int:
        """Return how many entries of a partition the answer needs, whatever the number of partitions."""
        return _BEFORE_AND_AFTER if self.is_last_change else 1

    @classmethod
    def as_of(cls, group_id: GroupId, topics: HistoryScope, time: Millis) -> HistoryQuery:
        """Return the query for the offsets at a time."""
        return cls(group_id, topics, until=time, is_as_of=True)

    @classmethod
    def last_change(cls, group_id: GroupId, topics: HistoryScope) -> HistoryQuery:
        """Return the query for the last change and the state before it."""
        return cls(group_id, topics, limit=_BEFORE_AND_AFTER, is_last_change=True)


class HistoryEntry(NamedTuple):
    """One change of a partition's offset."""

    log_offset: int
    """Offset of the record in the group's partition of `__consumer_offsets`."""
    written: Millis
    """Timestamp of that record: the same for all changes of one request."""
    commit: OffsetCommit | None
    """None: the offset was removed."""
    author: ChangeAuthor | None = None
    """Who made an administrative change, as far as that is known; None for all others."""

    @property
    def time(self) -> Millis:
        """Return the time from which the entry is valid."""
        return self.written if self.commit is None else self.commit.commit_timestamp


class Earlier(IntEnum):
    """What is known of the time before the oldest entry, or of all time without an entry."""

    NOTHING = 0
    """There was no offset before."""
    MORE = 1
    """There are more entries, before `since` or beyond the limit."""
    UNKNOWN = 2
    """Not known."""


@dataclass(frozen=True, slots=True)
class TopicLife:
    """The topic that has a name now, and which entries of the name belong to it."""

    topic_id: TopicId = ZERO_TOPIC_ID
    """ZERO_TOPIC_ID: no topic has the name, and all entries belong to a deleted topic."""
    created_at: Millis = FIRST_TIME
    offsets_from: int = 0
    """Entries below this offset of the log belong to a former topic."""
    offsets_after: Millis = FIRST_TIME
    """So do entries written at or before this time, where their offset in the log does not decide."""

    def owns(self, entry: HistoryEntry) -> bool:
        """Return whether an entry belongs to the topic that has the name now."""
        return (
            self.topic_id != ZERO_TOPIC_ID
            and entry.log_offset >= self.offsets_from
            and entry.written > self.offsets_after
        )


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """The entries of one partition that the query asks for, newest first."""

    topic: TopicName
    partition: int
    entries: Sequence[HistoryEntry]
    earlier: Earlier
    former: int = 0
    """Number of entries, the oldest ones, that belong to a deleted topic."""


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The answer to a query."""

    known_since: Millis
    """From this time on the history is complete; -1: it is complete."""
    partitions: Sequence[PartitionHistory]
    lives: Mapping[TopicName, TopicLife] = field(default_factory=dict)
    """The lives of the topics of these partitions."""


_Key = tuple[TopicName, int]


class _Timeline:
    """The records of one partition in one or more segments, oldest first."""

    __slots__ = ("entries", "first", "has_more", "last")

    def __init__(self, first: HistoryEntry) -> None:
        self.first = self.last = first
        """The first and the last record, whether or not the query asks for them."""
        self.entries: deque[HistoryEntry] = deque()
        self.has_more = False

    def begins_with_nothing(self, known_since: Millis) -> bool:
        """Return whether the oldest entry is a removal without an offset before it, in the known history."""
        first = self.entries[0] if self.entries and not self.has_more else None
        return first is not None and first.commit is None and known_since < first.written

    def has_change(self, known_since: Millis) -> bool:
        """Return whether one of the entries is a change."""
        return len(self.entries) > 1 or (bool(self.entries) and not self.begins_with_nothing(known_since))

    def limit_to(self, limit: int) -> int:
        """Drop the oldest entries beyond the limit; return how many were dropped."""
        surplus = max(0, len(self.entries) - limit)
        for _ in range(surplus):
            self.entries.popleft()
            self.has_more = True
        return surplus


class HistoryCollector:
    """Collects the answer to one query: `take` the records of a segment, then `end_segment`, and so on."""

    def __init__(self, query: HistoryQuery, most_entries: int = MOST_ENTRIES) -> None:
        self._query = query
        self._limit = query.limit
        self._most_entries = most_entries
        self._entry_count = 0
        self._wanted = _wanted(query.topics)
        self._known: dict[_Key, _Timeline] = {}
        self._segment: dict[_Key, _Timeline] = {}
        self._authors: dict[int, ChangeAuthor] = {}
        """Authors by the offset in the log of the first record that is theirs."""
        self._author_starts: list[int] = []

    def take_author(self, log_offset: int, record: ChangeAuthor) -> None:
        """Add the author of a change, of any group, with the offset of its record in the log."""
        if record.group_id == self._query.group_id:
            self._authors[log_offset - record.back] = record

    def take(self, log_offset: int, written: Millis, record: OffsetCommit | OffsetTombstone) -> None:
        """Add one record of the current segment, of any group, with its offset and timestamp in the log."""
        query = self._query
        if record.group_id != query.group_id:
            return
        if self._wanted is not None:
            partitions = self._wanted.get(record.topic, _NOWHERE)
            if partitions is not None and record.partition not in partitions:
                return
        entry = HistoryEntry(log_offset, written, record if isinstance(record, OffsetCommit) else None)
        key = record.topic, record.partition
        timeline = self._segment.get(key)
        if timeline is None:
            timeline = self._segment[key] = _Timeline(entry)
        elif log_offset <= timeline.last.log_offset or _repeats(entry, timeline.last):
            return
        timeline.last = entry
        if entry.time > query.until:
            return
        if entry.time < query.since:
            timeline.has_more = True
            return
        timeline.entries.append(entry)
        self._entry_count += 1
        if len(timeline.entries) > self._limit:
            self._entry_count -= timeline.limit_to(self._limit)
        if self._entry_count > self._most_entries and self._limit > query.least_entries:
            self._halve_limit()

    def end_segment(self) -> None:
        """End the segment. The next records are from an older segment."""
        segment, self._segment = self._segment, {}
        for key, older in segment.items():
            newer = self._known.get(key)
            if newer is None:
                self._known[key] = older
            else:
                self._entry_count -= len(newer.entries) + len(older.entries)
                self._join(older, newer)
                self._entry_count += len(newer.entries)

    def _join(self, older: _Timeline, newer: _Timeline) -> None:
        """Put the older records before the newer ones; a record in both counts in the newer ones."""
        first = newer.first
        if older.first.log_offset >= first.log_offset:
            return
        while older.entries and older.entries[-1].log_offset >= first.log_offset:
            older.entries.pop()
        before = older.last
        if before.log_offset >= first.log_offset:
            before = older.entries[-1] if older.entries else first
        if before is not first and _repeats(first, before) and newer.entries and newer.entries[0] is first:
            newer.entries.popleft()
        newer.first = older.first
        newer.has_more |= older.has_more
        newer.entries.extendleft(reversed(older.entries))
        newer.limit_to(self._limit)

    def _halve_limit(self) -> None:
        self._limit = max(self._limit // 2, self._query.least_entries)
        for timelines in (self._known, self._segment):
            for timeline in timelines.values():
                self._entry_count -= timeline.limit_to(self._limit)

    def is_answered(self, moved_until: Millis) -> bool:
        """Return whether older segments, all moved to the history by that time, can add nothing."""
        query = self._query
        if query.is_last_change:
            since = self._last_change_since(moved_until)
            return since is not None and moved_until < since - MOST_BETWEEN_SLICES_MS
        if moved_until < (query.until if query.is_as_of else query.since):
            return True
        keys = self._asked_for()
        return keys is not None and all(
            key in self._known and self._is_enough(self._known[key]) for key in keys
        )

    def _is_enough(self, timeline: _Timeline) -> bool:
        return bool(timeline.entries) if self._query.is_as_of else timeline.has_more

    def _newest(self, known_since: Millis) -> dict[_Key, HistoryEntry]:
        """Return the newest change of each partition with a change."""
        known = self._known.items()
        return {key: one.entries[-1] for key, one in known if one.has_change(known_since)}

    def _last_change_since(self, known_since: Millis) -> Millis | None:
        """Return the earliest time at which the last change began; None if there is no change."""
        newest = self._newest(known_since).values()
        last = max(newest, default=None, key=_place)
        return None if last is None else _began(last, [entry for entry in newest if entry.commit is None])

    def topics(self) -> set[TopicName]:
        """Return the topic names that the answer may contain."""
        named = {topic for topic, _ in self._query.topics or ()}
        return named.union(topic for topic, _ in self._known)

    def answer(self, known_since: Millis, lives: Mapping[TopicName, TopicLife]) -> GroupHistory:
        """Return the answer; the history is complete from `known_since` on.

        `lives` has an item for each of `topics()`.
        """
        self._author_starts = sorted(self._authors)
        asked_for = self._asked_for()
        keys: Iterable[_Key]
        if self._query.is_last_change:
            keys = self._last_changed(known_since)
        elif asked_for is not None:
            keys = asked_for
        else:
            keys = _in_order(
                key
                for key, timeline in self._known.items()
                if timeline.has_change(known_since) or self._query.is_as_of
            )
        partitions = [self._of_partition(key, known_since, lives[key[0]]) for key in keys]
        return GroupHistory(known_since, partitions, lives)

    def _asked_for(self) -> list[_Key] | None:
        """Return the partitions that the query names, in its order; None if it does not name them."""
        if self._query.topics is None:
            return None
        keys: list[_Key] = []
        for topic, partitions in self._query.topics:
            if partitions is None:
                return None
            keys += ((topic, partition) for partition in partitions)
        return list(dict.fromkeys(keys))

    def forget(self) -> None:
        """Free the collected entries in small steps: all at once would block the interpreter."""
        for timelines in (self._known, self._segment):
            while timelines:
                timelines.popitem()

    def _last_changed(self, known_since: Millis) -> list[_Key]:
        newest = self._newest(known_since)
        last = max(newest.values(), default=None, key=_place)
        if last is None:
            return []
        expired = {key: entry for key, entry in newest.items() if self._is_expiry(self._known[key])}
        if last not in expired.values():
            return _in_order(key for key, entry in newest.items() if entry.written == last.written)
        began = _began(last, expired.values())
        return _in_order(
            key
            for key, entry in newest.items()
            if entry.written == last.written or (key in expired and began <= entry.written <= last.written)
        )

    def _author_of(self, entry: HistoryEntry) -> ChangeAuthor | None:
        """Return who made a change: the author whose records it is among."""
        at = bisect_right(self._author_starts, entry.log_offset) - 1
        if at < 0:
            return None
        start = self._author_starts[at]
        author = self._authors[start]
        return author if entry.log_offset < start + author.count else None

    def _is_expiry(self, timeline: _Timeline) -> bool:
        """Return whether the newest change removed an offset that was old enough to expire."""
        if self._query.retention_ms is None or len(timeline.entries) < _BEFORE_AND_AFTER:
            return False
        commit, removal = timeline.entries[-2].commit, timeline.entries[-1]
        if commit is None or removal.commit is not None:
            return False
        if commit.expire_timestamp != NO_EXPIRY:
            return removal.written >= commit.expire_timestamp
        return removal.written - commit.commit_timestamp >= self._query.retention_ms

    def _of_partition(self, key: _Key, known_since: Millis, life: TopicLife) -> PartitionHistory:
        timeline = self._known.get(key)
        entries = tuple(reversed(timeline.entries)) if timeline is not None else ()
        if timeline is not None and timeline.begins_with_nothing(known_since):
            entries = entries[:-1]
        if timeline is not None and timeline.has_more:
            earlier = Earlier.MORE
        elif entries:
            earlier = Earlier.NOTHING if known_since < entries[-1].written else Earlier.UNKNOWN
        else:
            before = self._query.until if self._query.is_as_of else self._query.since
            earlier = Earlier.NOTHING if known_since <= before else Earlier.UNKNOWN
        own = sum(1 for _ in takewhile(life.owns, entries))
        if self._author_starts:
            entries = tuple(entry._replace(author=self._author_of(entry)) for entry in entries)
        return PartitionHistory(*key, entries, earlier, former=len(entries) - own)


def _in_order(keys: Iterable[_Key]) -> list[_Key]:
    """Return the partitions by topic and index; the sort has no long single step."""
    topics: dict[TopicName, list[int]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(partition)
    return [(topic, partition) for topic in sorted(topics) for partition in sorted(topics[topic])]


def _place(entry: HistoryEntry) -> int:
    return entry.log_offset


def _began(last: HistoryEntry, removals: Iterable[HistoryEntry]) -> Millis:
    """Return when the change that ended with the last entry began, if these removals may be its slices."""
    began = last.written
    if last.commit is None:
        earlier = {entry.written for entry in removals if entry.written <= began}
        for written in sorted(earlier, reverse=True):
            if written < began - MOST_BETWEEN_SLICES_MS:
                break
            began = min(began, written)  # the clock may have been ahead when an earlier record was written
    return began


def _repeats(entry: HistoryEntry, before: HistoryEntry) -> bool:
    """Return whether an entry repeats the one before it."""
    return entry.commit == before.commit


def _wanted(topics: HistoryScope) -> Mapping[TopicName, frozenset[int] | None] | None:
    if topics is None:
        return None
    wanted: dict[TopicName, frozenset[int] | None] = {}
    for topic, partitions in topics:
        so_far = wanted.get(topic, _NOWHERE)
        wanted[topic] = None if partitions is None or so_far is None else so_far.union(partitions)
    return wanted

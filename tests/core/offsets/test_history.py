"""The history of a group, reconstructed from segments of a log and of its history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from tests.columns import column_batch

from headgate.core.commands import Tick
from headgate.core.offsets import history as history_rules
from headgate.core.offsets.history import (
    MOST_BETWEEN_SLICES_MS,
    Earlier,
    GroupHistory,
    HistoryCollector,
    HistoryEntry,
    HistoryQuery,
    TopicLife,
)
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.records import OffsetCommit, OffsetTombstone
from headgate.records.history import SINCE_EVER

GROUP, OTHER, TOPIC = GroupId("g"), GroupId("other"), TopicName("t")
PARTITIONS = range(4)
RETENTION_MS = 300
KEPT_MS = 4_000
PRESENT = {TOPIC: TopicLife(TopicId(bytes([1] * 16)))}
"""The topic that always had its name."""
Record = OffsetCommit | OffsetTombstone


@dataclass(frozen=True)
class Written:
    """A record at its first position."""

    log_offset: int
    time: int
    record: Record
    life: int = 0
    """Number of earlier topics of that name."""


@dataclass(frozen=True)
class Moved:
    """A record in the history, and the time when it was moved."""

    at: int
    written: Written


def commit(partition: int, offset: int, time: int, group: GroupId = GROUP) -> OffsetCommit:
    """Return a committed offset."""
    return OffsetCommit(group, TOPIC, partition, offset, partition, f"m{offset}", Millis(time))


class Life:
    """A log, its history, and all events; moves and deletions are random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.time = 1000
        self.all: list[Written] = []
        self.log: list[Written] = []
        self.history: list[list[Moved]] = [[]]
        self.known_since = SINCE_EVER
        self.lives = 0
        self.topic = TopicLife(TopicId(bytes([1] * 16)))

    def run(self, steps: int) -> None:
        """Commit, remove, compact, crash during a compaction, delete old history, delete the topic."""
        for _ in range(steps):
            self.time += self.random.randint(0, 20)
            match self.random.randint(0, 13):
                case 0 | 1:
                    self.compact()
                case 2:
                    self.delete_old()
                case 3:
                    self.recreate()
                case _:
                    self.commit()

    def commit(self) -> None:
        """Commit one to three partitions, or remove their offsets."""
        random = self.random
        for partition in random.sample(PARTITIONS, random.randint(1, 3)):
            group = random.choice([GROUP, GROUP, OTHER])
            record: Record = commit(partition, len(self.all), self.time, group)
            ours = [one.record for one in self.all if key_of(one) == (group, partition)]
            if ours and isinstance(ours[-1], OffsetCommit):
                if random.random() < 0.2:
                    record = OffsetTombstone(group, TOPIC, partition)
                elif random.random() < 0.1:
                    record = ours[-1]  # as after a torn commit
            self.write(record)

    def write(self, record: Record) -> None:
        """Append a record to the log."""
        self.all.append(Written(len(self.all), self.time, record, self.lives))
        self.log.append(self.all[-1])

    def recreate(self) -> None:
        """Delete the topic and the offsets committed for it, and create another one, all in one ms."""
        last = {key_of(one): one.record for one in self.all}
        for (group, partition), record in last.items():
            if isinstance(record, OffsetCommit):
                self.write(OffsetTombstone(group, TOPIC, partition))
        self.lives += 1
        topic_id = TopicId(bytes([self.lives + 1] * 16))
        self.topic = TopicLife(topic_id, Millis(self.time), offsets_from=len(self.all))

    def compact(self) -> None:
        """Move old records from the log to the history; a crash may interrupt it."""
        end = self.random.randint(0, len(self.log))
        last = {key_of(one): one for one in self.log[:end]}
        moved = [one for one in self.log[:end] if one is not last[key_of(one)] or self.is_over(one)]
        completed = self.random.random() < 0.7
        for one in moved if completed else moved[: self.random.randint(0, len(moved))]:
            self.history[-1].append(Moved(self.time, one))
            if self.random.random() < 0.2:
                self.history.append([])
        if completed:
            gone = set(map(id, moved))
            self.log = [one for one in self.log if id(one) not in gone]

    def is_over(self, one: Written) -> bool:
        """Return whether a tombstone is removed too."""
        return isinstance(one.record, OffsetTombstone) and one.time < self.time - 50

    def delete_old(self) -> None:
        """Delete old segments of the history."""
        while self.history[0] and self.history[0][-1].at < self.time - RETENTION_MS:
            self.known_since = Millis(self.time - RETENTION_MS)
            del self.history[0]
            if not self.history:
                self.history.append([])
        first = next((one.at for segment in self.history for one in segment), None)
        if self.known_since != SINCE_EVER and first is not None:
            self.known_since = Millis(first)

    def ask(self, query: HistoryQuery) -> GroupHistory:
        """Return the collector's answer, read as a node reads it."""
        collector = HistoryCollector(query)
        cut = sorted(self.random.sample(range(len(self.log) + 1), min(3, len(self.log) + 1)))
        for start, end in reversed(list(zip([0, *cut], [*cut, len(self.log)], strict=True))):
            for one in self.log[start:end]:
                collector.take(one.log_offset, Millis(one.time), one.record)
            collector.end_segment()
        since = self.known_since
        for segment in reversed(self.history):
            moved_until = Millis(max((one.at for one in segment), default=-1))
            if segment and collector.is_answered(moved_until):
                since = max(since, moved_until)
                break
            for moved in segment:
                one = moved.written
                collector.take(one.log_offset, Millis(one.time), one.record)
            collector.end_segment()
        assert collector.topics() <= {TOPIC}
        history = collector.answer(since, {TOPIC: self.topic})
        for answer in history.partitions:
            former = [self.all[entry.log_offset].life < self.lives for entry in answer.entries]
            assert former == [False] * (len(former) - answer.former) + [True] * answer.former
        return history

    def entries(self, partition: int) -> list[HistoryEntry]:
        """Return all changes of a partition of GROUP, oldest first."""
        entries: list[HistoryEntry] = []
        for one in self.all:
            if key_of(one) == (GROUP, partition):
                record = one.record if isinstance(one.record, OffsetCommit) else None
                if not entries or entries[-1].commit != record:
                    entries.append(HistoryEntry(one.log_offset, Millis(one.time), record))
        return entries


def key_of(one: Written) -> tuple[GroupId, int]:
    """Return the key for compaction."""
    return one.record.group_id, one.record.partition


def lives() -> list[Life]:
    """Return lives of different lengths, some of which delete history."""
    made = []
    for seed in range(90):
        life = Life(Random(seed))
        life.run(seed)
        made.append(life)
    return made


def test_the_offsets_of_any_time_are_reported_or_unknown() -> None:
    """With compactions, crashes, repeated moves and retention: never a wrong offset."""
    outcomes = set()
    for life in lives():
        for _ in range(20):
            time = life.random.randint(900, life.time + 10)
            for scope in (None, [(TOPIC, None)], [(TOPIC, list(PARTITIONS))]):
                history = life.ask(HistoryQuery.as_of(GROUP, scope, Millis(time)))
                for answer in history.partitions:
                    before = [entry for entry in life.entries(answer.partition) if entry.time <= time]
                    if answer.entries:
                        assert [answer.entries[0].commit] == [before[-1].commit]
                    elif answer.earlier is Earlier.NOTHING:
                        assert not before or before[-1].commit is None
                    else:
                        assert answer.earlier is Earlier.UNKNOWN
                        assert time < history.known_since
                    outcomes.add((bool(answer.entries), answer.earlier))
                told = {answer.partition for answer in history.partitions}
                for partition in set(PARTITIONS) - told:
                    before = [entry for entry in life.entries(partition) if entry.time <= time]
                    assert not before or before[-1].commit is None or time < history.known_since
    assert len(outcomes) >= 4


def test_the_list_of_changes_has_no_gaps_and_says_where_it_ends() -> None:
    """The newest entries of each partition, exactly, and a correct statement about earlier ones."""
    for life in lives():
        for limit in (1, 3, 1000):
            history = life.ask(HistoryQuery(GROUP, None, limit=limit))
            for answer in history.partitions:
                everything = life.entries(answer.partition)
                found = [entry.commit for entry in reversed(answer.entries)]
                assert found == [entry.commit for entry in everything][-len(found) :]
                assert len(found) <= limit
                if answer.earlier is Earlier.NOTHING:
                    assert len(everything) == len(found) or everything[-len(found) - 1].commit is None
                if answer.earlier is Earlier.MORE:
                    assert len(everything) > len(found)


def test_the_last_change_is_all_that_was_written_with_the_newest_record() -> None:
    """For exactly the partitions of that change: the change and the previous state, or that it is unknown."""
    for life in lives():
        history = life.ask(HistoryQuery.last_change(GROUP, None))
        newest = {partition: entries[-1] for partition in PARTITIONS if (entries := life.entries(partition))}
        if not history.partitions:
            assert all(entry.commit is None for entry in newest.values()), "only what retention deleted"
            continue
        latest = max(newest.values(), key=lambda entry: entry.log_offset)
        expected = {partition for partition, entry in newest.items() if entry.written == latest.written}
        if latest.commit is None and latest.written < history.known_since:
            continue  # a removal that was deleted itself
        assert {answer.partition for answer in history.partitions} == expected
        for answer in history.partitions:
            entries = life.entries(answer.partition)
            assert answer.entries[0] == entries[-1]
            if len(answer.entries) == 2:
                assert answer.entries[1].commit == entries[-2].commit
            elif answer.earlier is Earlier.NOTHING:
                assert len(entries) == 1 or entries[-2].commit is None
            else:
                assert answer.earlier is Earlier.UNKNOWN


def test_what_was_committed_for_a_topic_that_is_gone_is_reported_as_such() -> None:
    """By log offset, to the record; by time without a log offset; all entries without a topic."""
    entries = [
        HistoryEntry(at, Millis(time), commit(0, at, time)) for at, time in ((1, 10), (2, 20), (3, 20))
    ]
    by_place = TopicLife(TopicId(b"t" * 16), Millis(20), offsets_from=3)
    by_time = TopicLife(TopicId(b"t" * 16), Millis(10), offsets_after=Millis(10))
    for life, own in ((by_place, [3]), (by_time, [2, 3]), (TopicLife(), []), (PRESENT[TOPIC], [1, 2, 3])):
        collector = HistoryCollector(HistoryQuery(GROUP, None, limit=10))
        for entry in entries:
            assert entry.commit is not None
            collector.take(entry.log_offset, entry.written, entry.commit)
        collector.end_segment()
        (answer,) = collector.answer(SINCE_EVER, {TOPIC: life}).partitions
        assert [entry.log_offset for entry in answer.entries[: 3 - answer.former]] == own[::-1]


def test_a_clock_that_was_set_back_makes_nothing_of_a_topic_that_is_gone_anothers() -> None:
    """Without log offsets, entries older than a record of the former topic belong to that topic, too."""
    collector = HistoryCollector(HistoryQuery(GROUP, None, limit=10))
    for at, time in ((1, 90), (2, 40), (3, 60)):
        collector.take(at, Millis(time), commit(0, at, time))
    collector.end_segment()
    life = TopicLife(TopicId(b"t" * 16), Millis(50), offsets_after=Millis(50))
    (answer,) = collector.answer(SINCE_EVER, {TOPIC: life}).partitions
    assert ([entry.log_offset for entry in answer.entries], answer.former) == ([3, 2, 1], 2)


def test_a_time_span_selects_and_says_that_there_is_more() -> None:
    """Entries from `since` up to `until`; earlier ones are indicated, later ones are not."""
    collector = HistoryCollector(HistoryQuery(GROUP, None, Millis(20), Millis(40), 10))
    for at in range(1, 6):
        collector.take(at, Millis(at * 10), commit(0, at, at * 10))
    collector.take(9, Millis(90), commit(1, 9, 90))
    collector.end_segment()
    assert collector.is_answered(Millis(19))
    assert not collector.is_answered(Millis(20))
    (answer,) = collector.answer(SINCE_EVER, PRESENT).partitions
    assert [entry.time for entry in answer.entries] == [40, 30, 20]
    assert answer.earlier is Earlier.MORE


def test_values_written_again_behind_a_torn_commit_are_no_changes() -> None:
    """They keep their commit time; the entry is that of the first record, wherever the second one is."""
    for is_apart in (False, True):
        collector = HistoryCollector(HistoryQuery.last_change(GROUP, None))
        first, change = commit(0, 5, 10), commit(1, 7, 30)
        records = [
            (1, 10, first),
            (2, 10, commit(1, 6, 10)),
            (3, 30, change),
            (9, 99, first),
            (10, 99, change),
        ]
        newer = [record for record in records if record[0] >= 9]
        for part in [newer, records[:3]] if is_apart else [records]:
            for log_offset, time, record in part:
                collector.take(log_offset, Millis(time), record)
            collector.end_segment()
        (answer,) = collector.answer(SINCE_EVER, PRESENT).partitions
        assert answer.partition == 1
        assert [entry.log_offset for entry in answer.entries] == [3, 2]


@patch.object(history_rules, "MOST_BETWEEN_SLICES_MS", 0)
def test_a_removal_of_nothing_behind_a_torn_commit_is_no_change() -> None:
    """An undo continues to the last real change; a removal of an existing offset remains a change."""
    collector = HistoryCollector(HistoryQuery.last_change(GROUP, None))
    collector.take(9, Millis(90), OffsetTombstone(GROUP, TOPIC, 3))
    collector.end_segment()
    assert not collector.is_answered(Millis(70))
    collector.take(4, Millis(40), commit(0, 4, 40))
    collector.take(5, Millis(50), OffsetTombstone(GROUP, TOPIC, 0))
    collector.end_segment()
    assert collector.is_answered(Millis(49))
    (answer,) = collector.answer(Millis(49), PRESENT).partitions
    assert [(entry.log_offset, entry.commit) for entry in answer.entries] == [
        (5, None),
        (4, commit(0, 4, 40)),
    ]

    collector = HistoryCollector(HistoryQuery(GROUP, None, limit=10))
    collector.take(2, Millis(20), OffsetTombstone(GROUP, TOPIC, 0))
    collector.take(3, Millis(30), commit(0, 3, 30))
    collector.take(4, Millis(40), OffsetTombstone(GROUP, TOPIC, 1))
    collector.end_segment()
    (answer,) = collector.answer(SINCE_EVER, PRESENT).partitions
    assert ([entry.log_offset for entry in answer.entries], answer.earlier) == ([3], Earlier.NOTHING)
    told = {one.partition: len(one.entries) for one in collector.answer(Millis(45), PRESENT).partitions}
    assert told == {0: 2, 1: 1}, "what they removed may be forgotten"


@pytest.mark.parametrize("limit", [1, 50])
def test_very_many_entries_are_fewer_of_each_partition(limit: int) -> None:
    """Memory is limited by the number of entries, whatever the group did; the newest entries are kept."""
    collector = HistoryCollector(HistoryQuery(GROUP, None, limit=limit), most_entries=100)
    for segment in (range(300, 500), range(130, 300), range(130)):
        for at in segment:
            collector.take(at, Millis(at), commit(at % 20, at, at))
        collector.end_segment()
    answers = collector.answer(SINCE_EVER, PRESENT).partitions
    assert sum(len(answer.entries) for answer in answers) <= 100
    assert all(answer.earlier is Earlier.MORE for answer in answers)


@pytest.mark.parametrize("late_ms", [0, 400])
@pytest.mark.parametrize("records_a_segment", [100, 10_000])
def test_an_expiry_of_a_wide_group_is_one_change(late_ms: int, records_a_segment: int) -> None:
    """Although it has slices with different times, and the loop was late between them."""
    count = 2_000
    shard = GroupShard(Settings({"offsets.retention.minutes": "10"}))
    numbers = np.arange(count)
    shard.apply(column_batch(GROUP, TOPIC, numbers, numbers, np.full(count, -1), "", Millis(1_000)), 0)
    shard.loaded(Millis(1_000))
    written: list[tuple[int, Millis, Record]] = [
        (number, Millis(1_000), commit(number, number, 1_000)) for number in range(count)
    ]
    slices = set()
    while len(shard.offsets):
        deadline = shard.next_deadline()
        assert deadline is not None
        now = Millis(deadline + late_ms)
        for record in shard.handle(Tick(), now).records:
            shard.apply(record, 0)
            if isinstance(record, OffsetTombstone):
                slices.add(now)
                written.append((len(written), now, record))
    assert len(slices) > 2
    collector = HistoryCollector(replace(HistoryQuery.last_change(GROUP, None), retention_ms=KEPT_MS))
    for end in range(len(written), 0, -records_a_segment):
        assert not collector.is_answered(Millis(min(slices) - 1)) or end <= count
        for log_offset, time, record in written[max(0, end - records_a_segment) : end]:
            collector.take(log_offset, time, record)
        collector.end_segment()
    found = collector.answer(SINCE_EVER, PRESENT).partitions
    assert [one.partition for one in found] == list(range(count))
    assert all([entry.commit is None for entry in one.entries] == [True, False] for one in found)


def test_a_removal_a_while_before_the_last_one_is_another_change() -> None:
    """So is a removal of an offset too young to expire; a commit between two slices is kept."""
    apart = MOST_BETWEEN_SLICES_MS + 1
    for times, young, expected in (
        ([0, apart], None, [1]),
        ([0, apart - 1], None, [0, 1]),
        ([0, 900, 1_800], None, [0, 1, 2]),
        ([0, 10, 20], 0, [1, 2]),
        ([0, 10, 20], 2, [2]),
    ):
        collector = HistoryCollector(replace(HistoryQuery.last_change(GROUP, None), retention_ms=KEPT_MS))
        log_offset = 0
        for partition in range(len(times)):
            committed_at = 4_900 if partition == young else 10
            collector.take(log_offset := log_offset + 1, Millis(10), commit(partition, 5, committed_at))
        for partition, time in enumerate(times):
            collector.take(log_offset := log_offset + 1, Millis(5_000 + time), commit(7, time, 5_000 + time))
            removal = OffsetTombstone(GROUP, TOPIC, partition)
            collector.take(log_offset := log_offset + 1, Millis(5_001 + time), removal)
        collector.end_segment()
        answer = collector.answer(SINCE_EVER, PRESENT)
        assert [one.partition for one in answer.partitions] == expected
        assert collector.is_answered(Millis(1_000))


def test_an_expiry_by_a_clock_that_was_ahead_is_no_part_of_a_later_change() -> None:
    """Its time is after that of the last change, an expiry or a commit; its log offset is not."""
    month_ms = 30 * 24 * 3_600_000
    removals = [OffsetTombstone(GROUP, TOPIC, partition) for partition in (0, 1)]
    for last, expected in ((removals[1], [1]), (commit(1, 9, 6_000), [1])):
        collector = HistoryCollector(replace(HistoryQuery.last_change(GROUP, None), retention_ms=KEPT_MS))
        collector.take(1, Millis(10), commit(0, 5, 10))
        collector.take(2, Millis(10), commit(1, 5, 10))
        collector.take(3, Millis(5_000 + month_ms), removals[0])
        collector.take(4, Millis(6_000), last)
        collector.end_segment()
        answer = collector.answer(SINCE_EVER, PRESENT)
        assert [one.partition for one in answer.partitions] == expected

"""Records that compaction removes are in the history, after every failure, until their retention ends."""

from __future__ import annotations

import errno
import threading
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.history.past import GROUP, SETTINGS, START, TOPIC, Life, Past, SetClock
from tests.log.compacting import drive
from tests.server.disk import DATA_DIR, new_disk

from headgate.core.offsets.authors import Author, authors_of
from headgate.core.offsets.history import Earlier, HistoryQuery
from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, Millis, TopicId
from headgate.domain.settings import Settings
from headgate.history import offset_history, writer
from headgate.log.batch import iterate_records
from headgate.log.log import Log
from headgate.log.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from headgate.records import GroupTombstone, OffsetTombstone
from headgate.records.history import SINCE_EVER, decode_mark, origin_of
from headgate.runtime import record_batches
from headgate.shards.group_batches import TurnBatches
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.partition import Partition
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

pytestmark = pytest.mark.timeout(120)
DAY_MS = 24 * 3600 * 1000


def fill(life: Life, past: Past, rounds: int = 12) -> None:
    """Write commits, deletions, another group's commits and a group's metadata, in a few segments."""
    for at in range(rounds):
        life.clock.time = Millis(life.clock.time + 10)
        life.commit(at, range(at % 3 + 1), past)
        life.commit(at, [0], past, GroupId("another"))
        if at % 5 == 4:
            life.write([[OffsetTombstone(GROUP, TOPIC, at % 3)], [GroupTombstone(GroupId("gone"))]], past)


def records_of(log: Log) -> int:
    """Return how many records a log holds."""
    return sum(header.record_count for header, _ in log.batches(log.log_start_offset))


def test_what_is_compacted_away_is_still_known_with_its_place_and_time() -> None:
    """Every change, in order, after compactions and a restart; the log itself is short."""
    files, clock, past = new_disk(), SetClock(), Past()
    life = Life(files, clock)
    for _ in range(3):
        fill(life, past)
        assert life.compact()
        assert not life.compact()
    assert life.all_entries() == past.entries
    assert records_of(life.partition.log) < 30 < records_of(life.moved.log)
    life.end()
    life.topics.close()
    life = Life(files, clock)
    assert life.all_entries() == past.entries
    answer = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [0, 7])], Millis(START + 45)))
    assert [entry.commit.offset for entry in answer.partitions[0].entries if entry.commit] == [3]
    assert (answer.known_since, answer.partitions[1].earlier) == (SINCE_EVER, Earlier.NOTHING)
    life.end()


def test_records_of_the_history_are_those_of_the_log_with_their_origin() -> None:
    """Same keys and values, offsets only, the time of the move as timestamp; the first record is the mark."""
    life, past = Life(new_disk(), clock := SetClock()), Past()
    fill(life, past)
    clock.time = Millis(START + 5000)
    assert life.compact()
    (_, mark), *moved = [one for _, data in life.moved.log.batches() for one in iterate_records(data)]
    assert decode_mark(mark.key, mark.value) == SINCE_EVER
    entries = {entry.log_offset: entry for entries in past.entries.values() for entry in entries}
    for _, record in moved:
        origin = origin_of(record.headers)
        assert origin is not None
        assert record.timestamp == START + 5000
        assert record.key is not None
        assert record.key[:2] == b"\0\1"
        if origin.offset in entries:
            assert origin.timestamp == entries[origin.offset].written
    assert len({origin_of(record.headers) for _, record in moved}) == len(moved)
    life.end()


def scenario(files: MemoryFileSystem) -> tuple[Life, Past]:
    """Make a log that was compacted once and is due again, with a wide commit and an incomplete one in it."""
    past = Past()
    life = Life(files, SetClock(), segment_bytes=1024)
    fill(life, past, rounds=8)
    assert life.compact()
    life.commit(100, range(20), past)
    torn = batches_of_a_torn_commit(life)
    life.partition.append_internal(torn)
    fill(life, past, rounds=5)
    return life, past


def batches_of_a_torn_commit(life: Life) -> list[bytearray]:
    """Return the batches of a wide commit without the last one."""
    records = [life.record(666, partition) for partition in range(20)]
    batches = TurnBatches().of([records], life.partition.log.log_end_offset, life.clock.system_time())
    assert len(batches) > 2
    return batches[:-1]


@pytest.mark.parametrize("kind", ["kill", "lose all", "lose some"])
def test_a_power_cut_at_any_change_of_a_compaction_loses_no_past(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change is reported once, an incomplete commit never, and the next compaction succeeds."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 700)
    monkeypatch.setattr(writer, "BATCH_BYTES", 300)
    monkeypatch.setattr(writer, "FLUSH_BYTES", 700)
    monkeypatch.setattr(offset_history, "SEGMENT_BYTES", 2048)
    cuts = 0
    for changes in range(1000):
        files = new_disk()
        life, past = scenario(files)
        files.cut_power_after(changes, torn_bytes=changes * 37 % 600)
        is_through = False
        try:
            assert life.compact()
            is_through = True
        except PowerCut:
            cuts += 1
        life.end()
        if kind == "kill":
            files.kill()
        else:
            files.crash(Random(changes) if kind == "lose some" else None)
        life = Life(files, life.clock)
        assert life.all_entries() == past.entries, changes
        life.end()
        if changes % 5 == 0 or is_through:
            life = Life(files, life.clock)
            fill(life, past)
            assert life.compact()
            assert life.all_entries() == past.entries, changes
            life.end()
        if is_through:
            break
    assert cuts > 30


def test_a_disk_that_fails_under_the_history_stops_the_compaction_and_loses_nothing() -> None:
    """Records that could not be moved remain in the log; when the disk works again, they are moved."""
    for fault in (Fault(kind="pwrite", path_ends=".log"), Fault(kind="datasync", path_ends=".log")):
        for after in range(4):
            files = new_disk()
            life, past = Life(files, SetClock()), Past()
            fill(life, past, rounds=30)
            fault.after = after
            files.inject(fault)
            with suppress(OSError):
                life.compact()
            files.heal()
            assert life.all_entries() == past.entries
            if life.partition.log.failure is not None:
                life.partition.log.recover()
            fill(life, past)
            assert life.compact()
            assert life.all_entries() == past.entries
            life.end()


def test_a_compaction_given_up_at_any_step_moves_nothing_twice_to_the_reader() -> None:
    """Records that were moved and not dropped are in both logs, and are reported once."""
    for patience in range(3, 400, 7):
        life, past = Life(new_disk(), SetClock()), Past()
        fill(life, past, rounds=20)
        job = history_job(life)
        ended = False
        for _ in range(patience):
            try:
                work = next(job)
            except StopIteration:
                ended = True
                break
            if work is not None:
                work()
        job.close()
        assert life.all_entries() == past.entries
        fill(life, past)
        life.compact()
        assert life.all_entries() == past.entries
        life.end()
        if ended:
            return
    raise AssertionError("the compaction never ended")


def history_job(life: Life):  # type: ignore[no-untyped-def]
    """Return the steps of the compaction that is due."""
    from headgate.topics.compactor import Compactor

    job = drive(
        Compactor(life.topics, life.history.rules_of).next_job(life.clock.system_time(), lambda: True)
    )
    assert job is not None
    return job.steps


def test_old_history_goes_and_is_then_not_known() -> None:
    """Retention counts from the move. Deleted records are reported as unknown, and nothing is wrong."""
    life, past = Life(new_disk(), clock := SetClock()), Past()
    housekeeping = Housekeeping(life.topics)
    for _ in range(10):
        fill(life, past)
        life.compact()
        clock.time = Millis(clock.time + DAY_MS)
        drive(housekeeping.round(clock.system_time()))
    answer = life.ask(HistoryQuery(GROUP, None, limit=10_000))
    assert START + DAY_MS < answer.known_since < START + 5 * DAY_MS
    for one in answer.partitions:
        entries = list(reversed(one.entries))
        assert entries == past.entries[one.partition][-len(entries) :]
        assert len(entries) < len(past.entries[one.partition])
        assert one.earlier is Earlier.UNKNOWN
    long_ago = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [0, 1])], Millis(START + 50)))
    assert [(one.entries, one.earlier) for one in long_ago.partitions] == [((), Earlier.UNKNOWN)] * 2
    clock.time = Millis(clock.time + 20 * DAY_MS)
    drive(housekeeping.round(clock.system_time()))
    assert life.moved.log.log_start_offset == life.moved.log.log_end_offset
    empty = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [5])], Millis(clock.time - 8 * DAY_MS)))
    assert empty.partitions[0].earlier is Earlier.UNKNOWN
    recent = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [5])], Millis(clock.time - 6 * DAY_MS)))
    assert recent.partitions[0].earlier is Earlier.NOTHING
    life.end()


def test_a_history_whose_sync_failed_once_works_again() -> None:
    """Though nothing is moved into it any more: a node with a failing log is not ready."""
    files = new_disk()
    life, past = Life(files, clock := SetClock()), Past()
    fill(life, past)
    assert life.compact()
    seconds = [0.0]
    life.topics._shared.seconds = lambda: seconds[0]
    clock.time = Millis(clock.time + 20 * DAY_MS)
    housekeeping = Housekeeping(life.topics)
    drive(housekeeping.round(clock.system_time()))
    files.inject(Fault(errno.EIO, "datasync", path_ends=".log"))
    with suppress(OSError):
        drive(life.history.mark_emptied())
    was_failing = life.moved.is_failing
    files.heal()
    for _ in range(20):
        seconds[0] += 60
        drive(housekeeping.try_failing())
    assert (was_failing, life.moved.is_failing) == (True, False)
    life.end()


def test_a_clock_that_is_set_back_makes_nothing_known_that_is_gone() -> None:
    """The value before a commit in the future is reported for as long as the commit lies ahead."""
    life, past = Life(new_disk(), clock := SetClock()), Past()
    life.commit(1, [0], past)
    clock.time = Millis(START + 30 * DAY_MS)
    for offset in range(2, 60):
        life.commit(offset, [0], past)
    clock.time = Millis(START + 1000)
    assert life.compact()
    clock.time = Millis(START + 10 * DAY_MS)
    drive(Housekeeping(life.topics).round(clock.system_time()))
    drive(life.history.mark_emptied())
    told = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [0])], Millis(clock.time - DAY_MS)))
    assert [entry.commit and entry.commit.offset for entry in told.partitions[0].entries] == [1]
    life.end()


def test_a_history_that_a_clock_ahead_has_emptied_is_not_known_afterwards() -> None:
    """When the clock is correct again, the lost time is reported as unknown, and nothing is wrong."""
    life, past = Life(new_disk(), clock := SetClock()), Past()
    fill(life, past)
    assert life.compact()
    clock.time = Millis(clock.time + 30 * DAY_MS)
    housekeeping = Housekeeping(life.topics)
    drive(housekeeping.round(clock.system_time()))
    drive(life.history.mark_emptied())
    clock.time = Millis(START + DAY_MS)
    told = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [0, 1])], Millis(START + 50)))
    assert [(one.entries, one.earlier) for one in told.partitions] == [((), Earlier.UNKNOWN)] * 2
    assert list(life.moved.log.batches(0)), "the mark"
    drive(housekeeping.round(clock.system_time()))
    drive(life.history.mark_emptied())
    assert len(list(life.moved.log.batches(life.moved.log.log_start_offset))) == 1
    life.end()


def test_a_history_that_was_off_begins_again() -> None:
    """Earlier moved records are still on disk, but later compactions were not recorded: all are unknown."""
    files, clock, past = new_disk(), SetClock(), Past()
    life = Life(files, clock)
    fill(life, past)
    life.compact()
    life.end()
    life.topics.close()
    life = Life(files, clock, offsets_history_retention_ms="0")
    fill(life, Past())
    assert life.compact()
    life.end()
    life.topics.close()
    clock.time = Millis(clock.time + 1000)
    life = Life(files, clock)
    assert life.ask(HistoryQuery(GROUP, None)).known_since == clock.time
    asked = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [0])], Millis(START + 15)))
    assert [(one.entries, one.earlier) for one in asked.partitions] == [((), Earlier.UNKNOWN)]
    clock.time = Millis(clock.time + 1000)
    again = Past()
    fill(life, again)
    life.compact()
    entries = life.all_entries()
    assert {index: found[-len(again.entries[index]) :] for index, found in entries.items()} == again.entries
    life.end()
    life.topics.close()
    clock.time = Millis(clock.time + 2 * DAY_MS)
    life = Life(files, clock, offsets_history_retention_ms="-1")
    assert life.moved.topic.policy.retention_ms == -1
    assert not life.moved.topic.policy.may_expire
    assert life.all_entries() == entries
    life.end()


def create(topics: Topics, life: int, now: Millis) -> None:
    """Create the topic of the committed offsets, with an id for each of its lives."""
    created = topics.create(NewTopic(TOPIC, TopicId(b"life %11d" % life), 3), now)
    assert not isinstance(created, Refusal)


def delete(topics: Topics, now: Millis) -> None:
    """Delete this topic."""
    topic = topics.by_name(TOPIC)
    assert topic is not None
    assert topics.delete(topic, now) is None


def test_what_was_committed_before_a_topic_was_created_again_is_reported_as_another_topics() -> None:
    """This is exact within one millisecond, after compaction, crashes and a clock that was set back."""
    files, clock, past = new_disk(), SetClock(), Past()
    life = Life(files, clock)
    create(life.topics, 1, clock.system_time())
    fill(life, past)
    assert all(one.former == 0 for one in life.ask(HistoryQuery(GROUP, None)).partitions)
    life.commit(77, [0], past)
    delete(life.topics, clock.system_time())
    life.write([[OffsetTombstone(GROUP, TOPIC, one) for one in range(3)]], past)
    gone = life.ask(HistoryQuery(GROUP, None, limit=100))
    assert [one.former for one in gone.partitions] == [len(one.entries) for one in gone.partitions]
    assert gone.lives[TOPIC].topic_id == ZERO_TOPIC_ID
    former = {one.partition: len(one.entries) for one in gone.partitions}
    for number in range(3):
        if number == 0:
            create(life.topics, 2, clock.system_time())
            created_at = clock.system_time()
            life.commit(50, [0], past)
        if number == 1:
            clock.time = Millis(clock.time - DAY_MS)
        life.commit(1 + number, [0, 1], past)
        found = life.ask(HistoryQuery(GROUP, None, limit=100))
        assert {one.partition: one.former for one in found.partitions} == former
        assert (found.lives[TOPIC].topic_id, found.lives[TOPIC].created_at) == (
            TopicId(b"life %11d" % 2),
            created_at,
        )
        assert life.all_entries() == past.entries
        life.compact()
        life.end()
        files.crash()
        life = Life(files, clock)
    life.end()


def test_where_a_catalogue_does_not_tell_where_a_topic_begins_its_time_does() -> None:
    """All commits of the same millisecond count as the former topic's."""
    files, clock, past = new_disk(), SetClock(), Past()
    topics = Topics.open(files, DATA_DIR, Settings(SETTINGS), clock.system_time())
    create(topics, 1, clock.system_time())
    delete(topics, clock.system_time())
    clock.time = Millis(clock.time + 5)
    create(topics, 2, clock.system_time())
    topics.close()
    life = Life(files, clock)
    clock.time = Millis(clock.time - 1)
    for offset in range(3):
        life.commit(offset, [0], past)
        clock.time = Millis(clock.time + 1)
    (found,) = life.ask(HistoryQuery(GROUP, None, limit=100)).partitions
    assert (len(found.entries), found.former) == (3, 2)
    life.end()


def test_a_segment_that_was_begun_and_never_written_does_not_end_the_search() -> None:
    """A crash may leave an empty segment at the end of the history: the segments before it are still read."""
    life, past = Life(new_disk(), SetClock()), Past()
    life.commit(1, [0, 1], past)
    life.clock.time = Millis(START + 10)
    life.commit(2, [0], past)
    fill(life, past)
    life.clock.time = Millis(START + 5000)
    life.commit(3, [1], past)
    assert life.compact()
    before_the_last = life.all_entries()[1][-2].commit
    life.moved.log._roll()
    (found,) = life.ask(HistoryQuery.as_of(GROUP, [(TOPIC, [0])], Millis(START + 5))).partitions
    assert [entry.commit for entry in found.entries] == [past.entries[0][0].commit]
    (changed,) = life.ask(HistoryQuery.last_change(GROUP, None)).partitions
    assert [entry.commit for entry in changed.entries] == [past.entries[1][-1].commit, before_the_last]
    assert before_the_last is not None
    life.end()


def test_what_could_not_be_read_in_time_is_not_known() -> None:
    """The log is always read, and the history as far as the time allows."""
    life, past = Life(new_disk(), clock := SetClock()), Past()
    fill(life, past)
    clock.time = Millis(clock.time + 1000)
    life.compact()
    answer = life.ask(HistoryQuery(GROUP, None, limit=100), max_wait_ms=0)
    assert answer.known_since == clock.time
    assert all(one.earlier is Earlier.UNKNOWN for one in answer.partitions)
    assert sum(len(one.entries) for one in answer.partitions) < 10
    life.end()


def test_only_what_cannot_be_lost_is_reported() -> None:
    """A written and unsynced commit is not in the answer, nor is a wide commit without its end."""
    life, past = Life(new_disk(), SetClock()), Past()
    fill(life, past)
    life.partition.append_internal(TurnBatches().of([[life.record(99, 0)]], 0, life.clock.system_time()))
    assert life.all_entries() == past.entries
    life.end()


@pytest.mark.interpreted
def test_a_history_is_opened_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the query opens it: many segments would block the loop."""
    files, clock, past = new_disk(), SetClock(), Past()
    life = Life(files, clock)
    fill(life, past)
    assert life.compact()
    life.end()
    life.topics.close()
    opened: list[tuple[str, str]] = []
    load = Topic.load_log

    def watched(topic: Topic, partition: Partition, *given: Any) -> Log:
        opened.append((str(partition), threading.current_thread().name))
        return load(topic, partition, *given)

    monkeypatch.setattr(Topic, "load_log", watched)
    life = Life(files, clock)
    assert life.all_entries() == past.entries
    assert [thread[:16] for name, thread in opened if "history" in name] == ["headgate-history"]
    life.end()


def test_the_authors_of_changes_are_moved_with_them() -> None:
    """Every signed change is signed after compactions and a restart, the others are not."""
    files, clock, past = new_disk(), SetClock(), Past()
    life = Life(files, clock)
    signed = set()
    for at in range(40):
        clock.time = Millis(clock.time + 10)
        commits = [life.record(at, partition) for partition in range(at % 3 + 1)]
        if at % 4 == 0:
            signed.add(at)
            life.write([[*commits, *authors_of(GROUP, commits, Author(f"admin-{at}", "/h"))]], past)
        else:
            life.write([commits], past)
        life.commit(at, [0], past, GroupId("another"))
        if at % 10 == 9:
            assert life.compact()
    life.end()
    again = Life(files, clock)
    found = again.ask(HistoryQuery(GROUP, None, limit=100))
    for partition in found.partitions:
        for entry in partition.entries:
            assert entry.commit is not None
            expected = f"admin-{entry.commit.offset}" if entry.commit.offset in signed else None
            assert (entry.author and entry.author.client_id) == expected
    assert sum(len(one.entries) for one in found.partitions) == sum(map(len, past.entries.values()))

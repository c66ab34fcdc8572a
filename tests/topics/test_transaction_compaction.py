"""Compaction and retention of logs with transactions: what counts, and how long markers remain."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.compacting import drive
from tests.topics.disk import DATA, NOW, Disk, batch, create, sync
from tests.topics.transactions import VERIFIED, Writer, committed_records, transactional

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.batch import BatchHeader, iterate_records
from headgate.log.compaction import CompactionOrder, compact
from headgate.topics.partition_files import PRODUCERS_FILE
from headgate.topics.topic import Topic

RETENTION_MS = 1000


@pytest.fixture
def topic(disk: Disk) -> Topic:
    return create(disk.start(), disk, "flights", cleanup_policy="compact")


def roll(topic: Topic) -> None:
    """Begin a new segment."""
    log = topic.partition(0).log
    log._roll()
    plain(topic, b"end")
    sync(topic)


def plain(topic: Topic, key: bytes, value: bytes | None = b"v") -> None:
    """Append a record without a transaction."""
    data = batch(value, keys=[key])  # type: ignore[arg-type]
    assert topic.partition(0).append(data, NOW).error == ErrorCode.NONE
    sync(topic)


def compacted(topic: Topic, now: int = NOW) -> None:
    """Compact all that may be compacted, as the server does."""
    partition = topic.partition(0)
    order = CompactionOrder(
        now_ms=now, delete_retention_ms=RETENTION_MS, not_beyond=partition.last_stable_offset
    )
    drive(compact(partition.log, order))
    partition.save_snapshot()


def headers(topic: Topic) -> list[BatchHeader]:
    log = topic.partition(0).log
    return [header for header, _ in log.batches(log.log_start_offset)]


def stored(topic: Topic) -> list[bytes | None]:
    """Return the values in the log, of all but markers."""
    log = topic.partition(0).log
    return [
        record.value
        for header, data in log.batches(log.log_start_offset)
        if not header.is_control
        for _, record in iterate_records(data)
    ]


def test_aborted_records_are_removed_and_replace_nothing(topic: Topic) -> None:
    """Committed ones replace earlier ones."""
    writer = Writer(topic, 1)
    plain(topic, b"a", b"a-old")
    plain(topic, b"b", b"b-old")
    writer.write(b"a-aborted", key=b"a")
    writer.end(is_committed=False)
    writer.write(b"b-new", key=b"b")
    writer.end(is_committed=True)
    roll(topic)
    compacted(topic)
    assert stored(topic) == [b"a-old", b"b-new", b"v"]
    assert committed_records(topic) == {b"a": b"a-old", b"b": b"b-new", b"end": b"v"}


def test_compaction_does_not_pass_an_open_transaction(topic: Topic) -> None:
    """Neither its records nor what it may replace."""
    plain(topic, b"a", b"1")
    plain(topic, b"a", b"2")
    roll(topic)
    Writer(topic, 1).write(b"3", key=b"a")
    plain(topic, b"a", b"4")
    roll(topic)
    compacted(topic)
    assert stored(topic) == [b"2", b"v", b"3", b"4", b"v"]
    assert topic.partition(0).log.compacted_to <= topic.partition(0).last_stable_offset


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_marker_remains_until_readers_have_seen_it(topic: Topic, is_committed: bool) -> None:
    """While its transaction has batches; and for delete.retention.ms from the compaction that finds none."""
    writer = Writer(topic, 1)
    writer.write(b"1", key=b"a")
    writer.end(is_committed=is_committed)
    Writer(topic, 1, epoch=1).end(is_committed=True)
    plain(topic, b"a", b"2")
    log = topic.partition(0).log
    remaining = []
    for now in (NOW, NOW + 1, NOW + RETENTION_MS, NOW + RETENTION_MS + 1):
        roll(topic)
        compacted(topic, now)
        markers = [one for one in headers(topic) if one.is_control and one.producer_epoch == 0]
        remaining.append((len(markers), markers[0].delete_horizon_ms if markers else None))
        assert committed_records(topic) == {b"a": b"2", b"end": b"v"}
        aborted = [tuple(one) for segment in log.segments for one in segment.aborted or ()]
        is_listed = not is_committed and len(remaining) == 1
        assert aborted == ([(1, 0, 1, 2)] if is_listed else [])
    horizon = NOW + 1 + RETENTION_MS
    assert remaining == [(1, None), (1, horizon), (1, horizon), (0, None)]


def test_a_transaction_whose_marker_was_compacted_away_is_not_open_again(disk: Disk, topic: Topic) -> None:
    """Although it is open in the last snapshot before a crash."""
    writer = Writer(topic, 1)
    writer.write(b"1", key=b"a")
    plain(topic, b"kept", b"v")
    partition = topic.partition(0)
    partition.active_producers()  # loads them
    partition.save_snapshot()
    disk.files.open(DATA / "flights-0" / PRODUCERS_FILE).datasync()
    disk.files.sync_directory(DATA / "flights-0")
    writer.end(is_committed=True)
    plain(topic, b"a", b"2")
    for now in (NOW, NOW, NOW + RETENTION_MS):
        roll(topic)
        order = CompactionOrder(
            now_ms=now,
            delete_retention_ms=RETENTION_MS,
            not_beyond=partition.last_stable_offset,
            producers_since_ms=NOW + 1,
        )
        drive(compact(partition.log, order))
    end = partition.log_end_offset
    disk.files.crash()
    again = disk.start().by_name("flights")
    assert again is not None
    assert again.partition(0).last_stable_offset == end
    assert committed_records(again) == {b"a": b"2", b"end": b"v", b"kept": b"v"}


def test_the_newest_epoch_of_a_producer_is_kept(topic: Topic) -> None:
    """Its marker remains without batches: it fences older epochs, also after a start from the log."""
    zombie = Writer(topic, 1)
    zombie.write(b"1", key=b"a")
    zombie.end(is_committed=True, epoch=1, version=2)
    plain(topic, b"a", b"2")
    for now in (NOW, NOW, NOW + RETENTION_MS):
        roll(topic)
        compacted(topic, now)
    assert [one.base_offset for one in headers(topic) if one.producer_id == 1] == [1]
    topic.partition(0).close()
    topic.shared.fs.remove(DATA / "flights-0" / PRODUCERS_FILE)
    late = topic.partition(0).append(transactional(1, b"late", sequence=1), NOW, VERIFIED)
    assert late.error == ErrorCode.INVALID_PRODUCER_EPOCH


def test_retention_does_not_delete_an_open_transaction(disk: Disk) -> None:
    """Whatever its age; records before it are deleted."""
    topic = create(disk.start(), disk, "flights", retention_ms="1000", segment_bytes="1024")
    partition = topic.partition(0)
    for _ in range(20):
        plain(topic, b"a", b"v" * 100)
    writer = Writer(topic, 1)
    writer.write(b"open")
    for _ in range(20):
        plain(topic, b"a", b"v" * 100)
    late = Millis(NOW + 10_000)
    assert partition.apply_retention(late) > 0
    assert 0 < partition.log_start_offset <= 20
    writer.end(is_committed=True)
    assert partition.apply_retention(late) > 0
    assert partition.log_start_offset == partition.log_end_offset


def test_records_of_an_open_transaction_may_be_deleted(disk: Disk) -> None:
    """DeleteRecords goes up to the high watermark, as in Kafka; the transaction goes on, also after a start
    from the log alone.
    """
    topic = create(disk.start(), disk, "flights")
    writer = Writer(topic, 1)
    writer.write(b"1")
    writer.write(b"2")
    partition = topic.partition(0)
    assert partition.delete_records(-1) == (ErrorCode.NONE, 2)
    assert partition.last_stable_offset == 2
    writer.write(b"3")
    assert partition.last_stable_offset == 2
    disk.files.crash()
    again = disk.start().by_name("flights")
    assert again is not None
    writer.topic = again
    assert again.partition(0).last_stable_offset == 2
    writer.write(b"4")
    writer.end(is_committed=True)
    assert committed_records(again) == {b"key": b"4"}
    assert again.partition(0).last_stable_offset == 5


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["write", "write", "commit", "abort", "plain", "roll", "compact", "crash", "restart"]
        ),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(STEPS)
def test_compaction_changes_no_value_that_counts(steps: list[tuple[str, int, int]]) -> None:
    """Whatever transactions, compactions and restarts come after each other."""
    disk = Disk()
    topics = disk.start()
    topic = create(topics, disk, "flights", cleanup_policy="compact")
    plain(topic, b"end")
    log: list[tuple[bytes, bytes | None, int]] = [(b"end", b"v", -1)]
    fates: dict[int, str] = {}
    writers = [Writer(topic, number) for number in range(3)]
    begun: dict[int, list[int]] = {}
    now = NOW
    for number, (step, who, which) in enumerate(steps):
        key, value = b"k%d" % which, b"%d" % number
        now = Millis(now + RETENTION_MS // 3)
        if step == "plain":
            plain(topic, key, value)
            log.append((key, value, -1))
        elif step == "write":
            begun.setdefault(who, []).append(len(log))
            writers[who].write(value, key=key)
            log.append((key, value, len(log)))
        elif step in ("commit", "abort"):
            writers[who].end(is_committed=step == "commit")
            fates |= dict.fromkeys(begun.pop(who, []), step)
            log.append((b"", None, -2))
        elif step == "roll":
            roll(topic)
            log.append((b"end", b"v", -1))
        elif step == "compact":
            compacted(topic, now)
        else:
            if step == "restart":
                topics.close()
            else:
                disk.files.crash()
            topics = disk.start()
            found = topics.by_name("flights")
            assert found is not None
            topic = found
            for one in writers:
                one.topic = topic
        stable = min((first[0] for first in begun.values()), default=len(log))
        expected = {
            key: value
            for key, value, at in log[:stable]
            if at == -1 or (at >= 0 and fates.get(at) == "commit")
        }
        assert topic.partition(0).last_stable_offset == stable
        assert committed_records(topic) == expected

"""Transactions across restarts: the snapshot and the .txnindex files are used, and never trusted over the
log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.topics.disk import DATA, NOW, Disk, append, create, sync
from tests.topics.transactions import Writer, committed

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.filesystem import read_file
from headgate.log.memory_filesystem import Fault
from headgate.log.transaction_index import ENTRY_BYTES, AbortedTransactions
from headgate.topics.partition_files import PRODUCERS_FILE
from headgate.topics.producers import ProducerCount
from headgate.topics.snapshot import Snapshot
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics

DIRECTORY = DATA / "flights-0"
SNAPSHOT = DIRECTORY / PRODUCERS_FILE


def found(topics: Topics) -> Topic:
    """Return the topic of these tests."""
    topic = topics.by_name("flights")
    assert topic is not None
    return topic


def written(disk: Disk, *, is_clean: bool) -> tuple[list[bytes | None], int]:
    """Write aborted and committed transactions into several segments, one remains open; stop. Return what a
    committed reader sees, and the last stable offset.
    """
    topics = disk.start()
    topic = create(topics, disk, "flights", segment_bytes="1024")
    for number in range(12):
        writer = Writer(topic, number)
        writer.write(b"%d" % number * 10)
        writer.write(b"%d" % number * 20)
        writer.end(is_committed=number % 3 == 0)
    Writer(topic, 99).write(b"open")
    append(topic, b"hidden")
    assert topic.partition(0).log.segment_count > 3
    seen = committed(topic), topic.partition(0).last_stable_offset
    if is_clean:
        topics.close()
    else:
        disk.files.crash()
    return seen


def seen(topics: Topics) -> tuple[list[bytes | None], int]:
    """Return what a committed reader sees, and the last stable offset."""
    topic = found(topics)
    return committed(topic), topic.partition(0).last_stable_offset


def indexes(disk: Disk) -> list[Path]:
    """Return the .txnindex files."""
    return [DIRECTORY / name for name in sorted(disk.files.listdir(DIRECTORY)) if name.endswith(".txnindex")]


@pytest.mark.parametrize("is_clean", [True, False])
def test_transactions_survive_a_restart(disk: Disk, is_clean: bool) -> None:
    """The open one continues; the aborted ones are known."""
    before = written(disk, is_clean=is_clean)
    topics = disk.start()
    assert seen(topics) == before
    topic = found(topics)
    writer = Writer(topic, 99)
    writer.sequence = 1
    writer.write(b"more")
    writer.end(is_committed=True)
    assert committed(topic) == [*before[0], b"open", b"hidden", b"more"]


def test_after_a_clean_stop_no_batch_is_read_again(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot and the files suffice."""
    before = written(disk, is_clean=True)
    monkeypatch.setattr("headgate.topics.transactions.Transactions.take", None)
    assert seen(disk.start()) == before


DAMAGES: list[tuple[str, Callable[[bytes], bytes | None]]] = [
    ("missing", lambda data: None),
    ("empty", lambda data: b""),
    ("a part of an entry", lambda data: data[: ENTRY_BYTES // 2]),
    ("without its first entry", lambda data: data[ENTRY_BYTES:]),
    ("another entry", lambda data: bytes(2) + (7).to_bytes(8, "big") + data[10:]),
    ("zeros", lambda data: bytes(len(data))),
    ("too long", lambda data: data + bytes(ENTRY_BYTES)),
    ("too long, by a part of an entry", lambda data: data + b"noise"),
]


@pytest.mark.parametrize("damage", [row[1] for row in DAMAGES], ids=[row[0] for row in DAMAGES])
@pytest.mark.parametrize("at", [0, -1])
def test_a_damaged_index_is_rebuilt_from_the_log(
    disk: Disk, damage: Callable[[bytes], bytes | None], at: int
) -> None:
    """Committed readers see the same, and the file is as it was."""
    before = written(disk, is_clean=True)
    whole = {path: disk.files.open(path).pread(1 << 20, 0) for path in indexes(disk)}
    assert len(whole) > 2
    path = indexes(disk)[at]
    changed = damage(whole[path])
    if changed is None:
        disk.files.remove(path)
    else:
        file = disk.files.open(path)
        file.truncate(0)
        file.pwrite(changed, 0)
    assert seen(disk.start()) == before
    assert {path: disk.files.open(path).pread(1 << 20, 0) for path in indexes(disk)} == whole


def test_without_a_snapshot_everything_is_read_from_the_log(disk: Disk) -> None:
    """Also the files are written again; one of a segment without aborted transactions is removed."""
    before = written(disk, is_clean=True)
    whole = {path: disk.files.open(path).pread(1 << 20, 0) for path in indexes(disk)}
    disk.files.remove(SNAPSHOT)
    for path in whole:
        disk.files.open(path).truncate(0)
    assert seen(disk.start()) == before
    assert {path: disk.files.open(path).pread(1 << 20, 0) for path in indexes(disk)} == whole


def test_a_snapshot_of_another_log_is_not_used(disk: Disk) -> None:
    """A copy from another partition has another last batch."""
    before = written(disk, is_clean=True)
    topics = disk.start()
    other = create(topics, disk, "others")
    for number in range(found(topics).partition(0).log_end_offset - 1):
        append(other, b"%d" % number)
    Writer(other, 99).write(b"open")
    topics.close()
    data = disk.files.open(DATA / "others-0" / PRODUCERS_FILE).pread(1 << 20, 0)
    file = disk.files.open(SNAPSHOT)
    file.truncate(0)
    file.pwrite(data, 0)
    assert seen(disk.start()) == before


def test_the_files_are_what_kafka_writes(disk: Disk) -> None:
    """Each entry has producer, first offset, marker, and the last stable offset after it."""
    topics = disk.start()
    topic = create(topics, disk, "flights")
    first, second, third = (Writer(topic, number) for number in (1, 2, 3))
    for writer in (first, second, third):
        writer.write(b"v")
    for writer, is_committed in ((second, False), (third, True), (first, False)):
        writer.end(is_committed=is_committed)
    topics.close()
    (path,) = indexes(disk)
    assert path.name == f"{0:020d}.txnindex"
    data = disk.files.open(path).pread(1000, 0)
    assert data[:ENTRY_BYTES] == bytes(2) + b"".join(n.to_bytes(8, "big") for n in (2, 1, 3, 0))
    entries = AbortedTransactions.from_bytes(data)
    assert entries is not None
    assert [tuple(one) for one in entries] == [(2, 1, 3, 0), (1, 0, 5, 6)]


def test_a_damaged_batch_stops_committed_readers(disk: Disk) -> None:
    """It may begin or end a transaction: without the snapshot nothing after it is known to be committed."""
    written(disk, is_clean=True)
    disk.files.remove(SNAPSHOT)
    second = sorted(name for name in disk.files.listdir(DIRECTORY) if name.endswith(".log"))[1]
    disk.files.open(DIRECTORY / second).pwrite(b"\0", 22)  # the attributes: no transaction
    topics = disk.start()
    partition = found(topics).partition(0)
    assert partition.last_stable_offset == int(second[:20])
    assert partition.high_watermark == 38


@pytest.mark.parametrize("by_request", [True, False])
def test_when_a_damaged_batch_is_deleted_committed_readers_go_on(disk: Disk, by_request: bool) -> None:
    """By a request, or by retention, which does not wait for it: the disk would fill."""
    written(disk, is_clean=True)
    disk.files.remove(SNAPSHOT)
    _, second, third = sorted(name for name in disk.files.listdir(DIRECTORY) if name.endswith(".log"))[:3]
    disk.files.open(DIRECTORY / second).pwrite(b"\0", 22)
    topics = disk.start()
    partition = found(topics).partition(0)
    assert partition.last_stable_offset == int(second[:20])
    if by_request:
        assert partition.delete_records(int(third[:20]))[0] == ErrorCode.NONE
    else:
        assert partition.apply_retention(Millis(NOW + 365 * 86_400_000)) > 1
    assert partition.log_start_offset >= int(third[:20])
    assert partition.last_stable_offset == 36, "where the open transaction begins"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "commit", "abort", "plain", "restart", "crash", "snapshot"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(STEPS)
def test_any_history_is_read_as_the_model_has_it(steps: list[tuple[str, int]]) -> None:
    """Whatever restarts come between, and wherever segments end."""
    disk = Disk()
    topics = disk.start()
    topic = create(topics, disk, "flights", segment_bytes="1024")
    log: list[tuple[bytes, int | None]] = []
    open_at: dict[int, int] = {}
    aborted: set[int] = set()
    writers = [Writer(topic, number) for number in range(4)]
    for number, (step, who) in enumerate(steps):
        writer, value = writers[who], b"%d" % number * 60
        if step == "plain":
            append(topic, value)
            log.append((value, None))
        elif step == "write":
            offset = writer.write(value)
            assert offset == len(log)
            open_at.setdefault(who, offset)
            log.append((value, who))
        elif step in ("commit", "abort"):
            writer.end(is_committed=step == "commit")
            first = open_at.pop(who, None)
            if first is not None and step == "abort":
                aborted |= {at for at in range(first, len(log)) if log[at][1] == who}
            log.append((b"", -1))
        elif step == "snapshot" and topic.partition(0).is_open:
            topic.partition(0).save_snapshot()
        elif step in ("restart", "crash"):
            if step == "restart":
                topics.close()
            else:
                disk.files.crash()
            topics = disk.start()
            topic = found(topics)
            for one in writers:
                one.topic = topic
        stable = min(open_at.values(), default=len(log))
        assert topic.partition(0).last_stable_offset == stable
        expected = [value for at, (value, who) in enumerate(log[:stable]) if who != -1 and at not in aborted]
        assert committed(topic, at_once=1) == expected
    if len(log) > 1:
        assert committed(topic, start=len(log) // 2) == [
            value
            for at, (value, who) in enumerate(log[:stable])
            if who != -1 and at not in aborted and at >= len(log) // 2
        ]
    assert NOW


def test_a_snapshot_is_taken_at_once_and_written_by_another_thread() -> None:
    """It has what was there when it was taken, however many batches came until it was written."""
    disk = Disk()
    topics = disk.start()
    held: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
    topics.use_thread(lambda work, on_done: held.append((work, on_done)))
    topic = create(topics, disk, "flights")
    partition = topic.partition(0)
    for number in range(300):
        Writer(topic, number).write(b"a")
    partition._derived.snapshot_at_bytes = 0
    Writer(topic, 300).write(b"a")
    ((work, on_done),) = held
    assert not disk.files.exists(SNAPSHOT)
    Writer(topic, 301).write(b"a")
    work()
    on_done(None)
    snapshot = Snapshot.decode(read_file(disk.files, SNAPSHOT))
    assert snapshot is not None
    assert (snapshot.end_offset, len(snapshot.open_transactions)) == (301, 301)
    restored = snapshot.restored_producers(ProducerCount(), ())
    assert restored is not None and len(restored) == 301
    disk.files.crash()
    again = found(disk.start()).partition(0)
    assert len(again.open_transactions) == 302
    assert len(again.active_producers()) == 302


def test_a_snapshot_of_what_was_truncated_meanwhile_is_removed() -> None:
    """Else it would be beyond the end of the log, and one day within it."""
    disk = Disk()
    topics = disk.start()
    held: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
    topics.use_thread(lambda work, on_done: held.append((work, on_done)))
    topic = create(topics, disk, "flights")
    partition = topic.partition(0)
    Writer(topic, 1).write(b"a")
    Writer(topic, 2).write(b"b", is_durable=False)
    partition._derived.snapshot_at_bytes = 0
    Writer(topic, 3).write(b"c", is_durable=False)
    disk.files.inject(Fault(kind="datasync"))
    with suppress(OSError):
        sync(topic)
    disk.files.drop_caches()
    partition.log.recover()
    ((work, on_done),) = held
    work()
    on_done(None)
    assert partition.log_end_offset < 3
    assert not disk.files.exists(SNAPSHOT)


def test_producers_are_read_with_the_log_and_forgotten_with_it() -> None:
    """So no first batch or description has to read them in the event loop."""
    disk = Disk()
    topics = disk.start()
    topic = create(topics, disk, "flights")
    for number in range(5):
        Writer(topic, number).write(b"a")
    topics.close()
    partition = found(disk.start()).partition(0)
    opening = partition.opening()
    assert opening is not None
    opening()
    reads: list[Path] = []
    disk.files.pass_reading = lambda kind, path: reads.append(path)  # type: ignore[method-assign]
    assert len(partition.active_producers()) == 5
    assert not reads
    assert partition.topic.shared.producers.total == 5
    partition.put_back()
    assert partition.topic.shared.producers.total == 0

"""A batch that failed keeps its place before those that its producer had sent behind it."""

from __future__ import annotations

import errno

import pytest
from tests.topics.disk import NOW, Disk, append, batch, create, sync, values

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.batch import BatchHeader, read_header
from headgate.log.filesystem import Fault
from headgate.topics.awaited_batches import AwaitedBatches
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
HOUR_MS = 3_600_000
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


def send(partition: Partition, value: bytes, producer: tuple[int, int, int]) -> ErrorCode:
    """Append a batch of one record, without waiting for the disk."""
    return partition.append(batch(value, producer=producer), NOW).error


def sent(producer_id: int, sequence: int, epoch: int = 0) -> BatchHeader:
    return read_header(batch(b"a", producer=(producer_id, epoch, sequence)))


@pytest.fixture
def topics(disk: Disk) -> Topics:
    return disk.start()


@pytest.fixture
def topic(disk: Disk, topics: Topics) -> Topic:
    """A topic with one record of another producer."""
    topic = create(topics, disk, "letters")
    append(topic, b"other", producer=(6, 0, 0))
    return topic


@pytest.mark.parametrize("first", [0, 41, (1 << 31) - 1])
def test_what_follows_a_new_producers_failed_batch_waits_for_it(disk: Disk, topic: Topic, first: int) -> None:
    """A producer without a state may start anywhere, but not with the batch behind one that failed: the
    failed one would be out of order when it comes again, and librdkafka would report it as delivered.
    """
    partition = topic.partition(0)
    second = (first + 1) % (1 << 31)
    disk.files.inject(Fault(errno.EIO, "pwrite"))
    assert send(partition, b"a", (7, 0, first)) == STORAGE
    assert send(partition, b"b", (7, 0, second)) == OUT_OF_ORDER
    assert send(partition, b"a", (7, 0, first)) == ErrorCode.NONE
    assert send(partition, b"b", (7, 0, second)) == ErrorCode.NONE
    sync(topic)
    assert values(topic) == [b"other", b"a", b"b"]


def test_what_follows_a_refusal_while_the_disk_fails_waits_for_it(
    disk: Disk, topics: Topics, topic: Topic
) -> None:
    """The first batch comes while the log is not tried again, the second when it is: same order."""
    clock = [100.0]
    topics._shared.seconds = lambda: clock[0]
    partition = topic.partition(0)
    disk.files.inject(Fault(errno.EIO, times=None))
    assert send(partition, b"x", (6, 0, 1)) == STORAGE
    assert send(partition, b"x", (6, 0, 1)) == STORAGE
    disk.files.heal()
    assert send(partition, b"a", (7, 0, 0)) == STORAGE
    clock[0] += 2
    assert send(partition, b"b", (7, 0, 1)) == OUT_OF_ORDER
    assert send(partition, b"a", (7, 0, 0)) == ErrorCode.NONE


def test_what_follows_a_lost_batch_waits_for_it(disk: Disk, topic: Topic) -> None:
    """A recovery that drops all of a producer's batches does not make it one that may start anywhere."""
    partition = topic.partition(0)
    assert send(partition, b"a", (7, 0, 0)) == ErrorCode.NONE
    assert send(partition, b"b", (7, 0, 1)) == ErrorCode.NONE
    log = partition.log
    log.fail(OSError(errno.EIO, "a sync failed"))
    segment = log.segments.active
    assert segment is not None
    segment.file().truncate(segment.synced_bytes)  # the disk lost what was not synced
    assert send(partition, b"c", (7, 0, 2)) == OUT_OF_ORDER
    assert send(partition, b"b", (7, 0, 1)) == OUT_OF_ORDER
    for at, value in enumerate((b"a", b"b", b"c")):
        assert send(partition, value, (7, 0, at)) == ErrorCode.NONE
    sync(topic)
    assert values(topic) == [b"other", b"a", b"b", b"c"]


def test_others_are_not_held_up(disk: Disk, topic: Topic) -> None:
    """Neither another producer, nor the same one in a new epoch, nor one that goes back to an earlier one."""
    partition = topic.partition(0)
    for producer_id in (7, 8):
        disk.files.inject(Fault(errno.EIO, "pwrite"))
        assert send(partition, b"a", (producer_id, 0, 5)) == STORAGE
    assert send(partition, b"b", (9, 0, 6)) == ErrorCode.NONE
    assert send(partition, b"c", (7, 1, 0)) == ErrorCode.NONE
    assert send(partition, b"d", (8, 0, 4)) == ErrorCode.NONE
    assert send(partition, b"e", (8, 0, 5)) == ErrorCode.NONE


def test_a_batch_that_the_transaction_coordinator_held_up_keeps_its_place(topic: Topic) -> None:
    """It was refused before it came to the partition, as while the coordinator loads."""
    partition = topic.partition(0)
    partition.refused_before_append(batch(b"a", producer=(7, 0, 0)))
    partition.refused_before_append(b"no batch at all")
    assert send(partition, b"b", (7, 0, 1)) == OUT_OF_ORDER
    assert send(partition, b"a", (7, 0, 0)) == ErrorCode.NONE
    assert send(partition, b"b", (7, 0, 1)) == ErrorCode.NONE


def test_a_held_up_batch_keeps_its_place_in_a_partition_without_records(disk: Disk, topics: Topics) -> None:
    """Nothing else keeps the object of a partition that was never written: the next request would get another
    one, and append what follows.
    """
    topic = create(topics, disk, "new")

    def of_a_request() -> Partition:
        found = topic.find_partition(0)
        assert found is not None
        return found

    of_a_request().refused_before_append(batch(b"a", producer=(7, 0, 0)))
    assert send(of_a_request(), b"b", (7, 0, 1)) == OUT_OF_ORDER
    assert send(of_a_request(), b"a", (7, 0, 0)) == ErrorCode.NONE
    assert send(of_a_request(), b"b", (7, 0, 1)) == ErrorCode.NONE


def test_a_producer_that_gave_its_batch_up_may_go_on_once_it_has_expired(topic: Topic) -> None:
    """A simple client raises neither its epoch nor goes back: it is not refused for ever."""
    partition = topic.partition(0)
    partition.refused_before_append(batch(b"a", producer=(7, 0, 0)))
    for hour in range(3):
        now = Millis(NOW + hour * HOUR_MS)
        partition.expire_producers(Millis(now - 2 * HOUR_MS), now)
        assert send(partition, b"b", (7, 0, 1)) == OUT_OF_ORDER
    partition.expire_producers(Millis(NOW + 1), Millis(NOW + 2 * HOUR_MS + 1))
    assert send(partition, b"b", (7, 0, 1)) == ErrorCode.NONE


def test_a_batch_of_old_records_is_awaited_as_long(topic: Topic) -> None:
    """Whoever sends last year's records again is not out of order because of a failure just now."""
    partition = topic.partition(0)
    old, behind = (batch(value, producer=(7, 0, at), timestamp=0) for at, value in enumerate((b"a", b"b")))
    partition.refused_before_append(old)
    partition.expire_producers(Millis(NOW - HOUR_MS), NOW)
    assert partition.append(behind, NOW).error == OUT_OF_ORDER
    assert partition.append(old, NOW).error == ErrorCode.NONE
    assert partition.append(behind, NOW).error == ErrorCode.NONE


def test_a_batch_of_an_older_epoch_does_not_take_the_place_of_an_awaited_one() -> None:
    """A producer that was fenced may still send while the log fails."""
    awaited = AwaitedBatches()
    awaited.refused(sent(7, 0, epoch=3))
    awaited.refused(sent(7, 9, epoch=2))
    assert awaited.is_ahead(sent(7, 1, epoch=3))
    awaited.refused(sent(7, 0, epoch=4))
    assert awaited.is_ahead(sent(7, 1, epoch=4))
    assert not awaited.is_ahead(sent(7, 1, epoch=3))


def test_producers_that_never_come_again_take_bounded_memory() -> None:
    """The oldest one is forgotten: it may start anywhere again."""
    awaited = AwaitedBatches()
    for producer_id in range(1500):
        awaited.refused(sent(producer_id, 0))
    assert len(awaited) == 1000
    assert not awaited.is_ahead(sent(499, 1))
    assert awaited.is_ahead(sent(500, 1))

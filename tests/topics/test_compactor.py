"""The choice of the next partition to compact: by dirty ratio, lag and policy, one at a time."""

from __future__ import annotations

import pytest
from tests.log.compacting import advance, drive
from tests.topics.disk import NOW, Disk, batch

from headgate.domain.ids import Millis
from headgate.domain.settings import Settings
from headgate.log.batch import iterate_records
from headgate.log.filesystem import Fault
from headgate.topics.compactor import RETRY_AFTER_SECONDS, CompactionJob, Compactor
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics


@pytest.fixture
def disk() -> Disk:
    """A disk with small segments."""
    made = Disk()
    made.settings = Settings({"log.segment.bytes": "1024"})
    return made


def create(topics: Topics, disk: Disk, name: str, partitions: int = 1, **overrides: str) -> Topic:
    """Create a compacted topic; settings have underscores for dots."""
    own = {"cleanup.policy": "compact"} | {key.replace("_", "."): value for key, value in overrides.items()}
    topic = topics.create(NewTopic(name, disk.topic_id(), partitions, own), NOW)
    assert isinstance(topic, Topic)
    return topic


def write(partition: Partition, count: int, *, keys: int = 3, now: int = NOW, seal: bool = True) -> None:
    """Append batches of one record, with few keys, and make them durable."""
    for at in range(count):
        key = b"k%d" % (at % keys)
        result = partition.append(batch(b"%d" % at * 20, keys=[key], timestamp=now), Millis(now))
        assert result.error == 0
    request = partition.log.begin_sync()
    request.run()
    partition.log.complete_sync(request)


def due(compactor: Compactor, now: int = NOW) -> CompactionJob | None:
    """Return the job that is due."""
    return drive(compactor.next_job(Millis(now), lambda: False))


def run(job: CompactionJob | None) -> None:
    """Run a job."""
    assert job is not None
    for work in job.steps:
        if work is not None:
            work()


def keys_of(partition: Partition) -> list[bytes | None]:
    """Return the keys of all records."""
    log = partition.log
    return [one.key for _, data in log.batches(log.log_start_offset) for _, one in iterate_records(data)]


def test_a_log_is_due_at_its_dirty_ratio(disk: Disk) -> None:
    """It is not due after its compaction, and due again when it has grown enough."""
    topics = disk.start()
    partition = create(topics, disk, "t").partition(0)
    compactor = Compactor(topics)
    assert due(compactor) is None
    write(partition, 5)
    assert due(compactor) is None, "all of it is in the active segment"
    write(partition, 40)
    job = due(compactor)
    assert job is not None
    assert (job.partition, job.dirty_ratio) == (partition, 1.0)
    run(job)
    assert due(compactor) is None
    assert len(keys_of(partition)) < 15
    write(partition, 40, keys=40)
    run(due(compactor))
    write(partition, 10)
    assert due(compactor) is None, "less than half of it is new"
    write(partition, 80)
    assert due(compactor) is not None


def test_the_dirtiest_compacted_topic_comes_first(disk: Disk) -> None:
    """A topic with another policy is never due; among the others the dirty ratio decides."""
    topics = disk.start()
    plain = create(topics, disk, "plain", cleanup_policy="delete").partition(0)
    write(plain, 50)
    compactor = Compactor(topics)
    assert due(compactor) is None
    first = create(topics, disk, "first", cleanup_policy="compact,delete").partition(0)
    second = create(topics, disk, "second").partition(0)
    write(first, 60, keys=60)
    run(due(compactor))
    write(first, 90)
    write(second, 20)
    job = due(compactor)
    assert job is not None
    assert job.partition is second


def test_compaction_lags_delay_and_force_a_compaction(disk: Disk) -> None:
    """min.compaction.lag.ms delays it, max.compaction.lag.ms overrides the ratio."""
    topics = disk.start()
    lagging = create(topics, disk, "lagging", min_compaction_lag_ms="1000").partition(0)
    write(lagging, 50)
    compactor = Compactor(topics)
    assert due(compactor, NOW + 999) is None
    run(due(compactor, NOW + 1000))
    hasty = create(topics, disk, "hasty", max_compaction_lag_ms="5000").partition(0)
    write(hasty, 100, keys=100)
    run(due(compactor))
    write(hasty, 20)
    assert due(compactor, NOW + 5000) is None
    job = due(compactor, NOW + 5001)
    assert job is not None
    assert job.partition is hasty
    assert hasty.topic.policy.segment_ms == 5000, "its segments are closed in time for that"


def test_closed_logs_are_checked_once_after_a_start(disk: Disk) -> None:
    """A log that is due is compacted; another one is closed again."""
    topics = disk.start()
    topic = create(topics, disk, "t", partitions=2)
    write(topic.partition(0), 50)
    write(topic.partition(1), 3)
    topics.close()
    topics = disk.start()
    found = topics.by_name("t")
    assert found is not None
    compactor = Compactor(topics)
    job = due(compactor)
    assert job is not None
    assert job.partition is found.partition(0)
    run(job)
    assert due(compactor) is None
    assert not found.partition(1).is_open


def restarted(disk: Disk, topics: Topics, *, is_crash: bool = False) -> tuple[Topic, Compactor]:
    """Stop and start. Return the topic `t`, whose logs are closed, and a compactor."""
    if is_crash:
        disk.files.crash()
    else:
        topics.close()
    topics = disk.start()
    topic = topics.by_name("t")
    assert topic is not None
    return topic, Compactor(topics)


def test_all_closed_logs_that_are_due_are_compacted(disk: Disk) -> None:
    """One after the other, though one round finds them all."""
    topics = disk.start()
    for partition in map(create(topics, disk, "t", partitions=3).partition, range(3)):
        write(partition, 50)
    _, compactor = restarted(disk, topics)
    compacted = set()
    while job := due(compactor):
        compacted.add(job.partition.index)
        run(job)
    assert compacted == {0, 1, 2}


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_closed_log_is_compacted_when_its_records_are_too_old(disk: Disk, is_crash: bool) -> None:
    """Whether or not somebody used it since the start; it is not opened before."""
    topics = disk.start()
    partition = create(topics, disk, "t", max_compaction_lag_ms="5000").partition(0)
    write(partition, 100, keys=100)
    run(due(Compactor(topics)))
    write(partition, 20)
    topic, compactor = restarted(disk, topics, is_crash=is_crash)
    assert due(compactor, NOW) is None
    assert topic.partition(0).is_open == is_crash, "the next stop closes a recovered log well"
    waits = [step for step in compactor.next_job(Millis(NOW + 5000), lambda: False) if step is not None]
    assert not waits
    run(due(compactor, NOW + 5001))
    assert due(compactor, NOW + 5001) is None


def test_a_log_that_a_crash_may_have_torn_is_left_to_its_users(disk: Disk) -> None:
    """Without a limit of the age of its records: all of it would be read."""
    topics = disk.start()
    write(create(topics, disk, "t").partition(0), 50)
    topic, compactor = restarted(disk, topics, is_crash=True)
    assert due(compactor) is None
    assert not topic.partition(0).is_open


def test_a_closed_log_is_compacted_when_its_records_are_old_enough(disk: Disk) -> None:
    """min.compaction.lag.ms delays it no longer than that."""
    topics = disk.start()
    write(create(topics, disk, "t", min_compaction_lag_ms="1000").partition(0), 50)
    _, compactor = restarted(disk, topics)
    assert due(compactor, NOW + 999) is None
    run(due(compactor, NOW + 1000))


def test_a_closed_log_is_next_looks_again_after_a_change_of_settings(disk: Disk) -> None:
    """A lower ratio makes it due."""
    topics = disk.start()
    partition = create(topics, disk, "t").partition(0)
    write(partition, 100, keys=100)
    run(due(Compactor(topics)))
    write(partition, 20)
    topics.close()
    topics = disk.start()
    compactor = Compactor(topics)
    assert due(compactor) is None
    overrides = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    assert topics.set_overrides(topics.all()[0], overrides, NOW) is None
    run(due(compactor))


def test_a_failed_compaction_is_retried_later_without_delaying_others(disk: Disk) -> None:
    """The steady clock decides when; no record is lost."""
    topics = disk.start()
    bad = create(topics, disk, "bad").partition(0)
    write(bad, 50)
    compactor = Compactor(topics)
    disk.files.inject(Fault(path_ends=".cleaned"))
    job = due(compactor)
    with pytest.raises(OSError, match="Input/output"):
        run(job)
    compactor.failed(bad)
    assert len(keys_of(bad)) == 50
    good = create(topics, disk, "good").partition(0)
    write(good, 50)
    job = due(compactor)
    assert job is not None
    assert job.partition is good
    run(job)
    assert due(compactor) is None
    assert due(compactor, NOW + 1000 * int(RETRY_AFTER_SECONDS)) is None
    later = bad.topic.shared.seconds() + RETRY_AFTER_SECONDS
    bad.topic.shared.seconds = lambda: later
    run(due(compactor))
    assert len(keys_of(bad)) < 15


def test_an_idempotent_producer_continues_after_its_records_were_compacted(disk: Disk) -> None:
    """The log keeps its sequence without its records, also for a start without a snapshot."""
    topics = disk.start()
    partition = create(topics, disk, "t").partition(0)
    for sequence in range(3):
        sent = batch(b"mine", keys=[b"k0"], producer=(9, 0, sequence))
        assert partition.append(sent, NOW).error == 0
    write(partition, 50)
    run(due(Compactor(topics)))
    topics.close()
    disk.files.remove(topics.data_dir / "t-0" / "producers.snapshot")
    again = disk.start().by_name("t")
    assert again is not None
    partition = again.partition(0)
    assert partition.append(batch(b"x", keys=[b"z"], producer=(9, 0, 5)), NOW).error != 0
    duplicate = partition.append(batch(b"mine", keys=[b"k0"], producer=(9, 0, 2)), NOW)
    assert (duplicate.error, duplicate.base_offset) == (0, 2)
    assert partition.append(batch(b"x", keys=[b"z"], producer=(9, 0, 3)), NOW).error == 0


def test_unsynced_segments_are_synced_before_records_are_dropped_for_theirs(disk: Disk) -> None:
    """Also with page-cache durability, a power cut after a compaction loses no compacted key."""
    topics = disk.start()
    topic = create(topics, disk, "t", headgate_durability="page-cache")
    partition = topic.partition(0)
    for at in range(60):
        partition.append(batch(b"%d" % at * 20, keys=[b"k%d" % (at % 3)]), NOW)
    job = due(Compactor(topics))
    assert job is not None
    for work in job.steps:
        if work is not None:
            work()
        if any(name.endswith("headgate.compaction") for name in disk.files.listdir(topics.data_dir / "t-0")):
            break
    disk.files.crash()
    found = disk.start().by_name("t")
    assert found is not None
    assert set(keys_of(found.partition(0))) == {b"k0", b"k1", b"k2"}


def test_checked_logs_are_opened_in_another_thread(disk: Disk) -> None:
    """The steps yield the opening, and pauses between the topics."""
    topics = disk.start()
    topic = create(topics, disk, "t", partitions=3)
    for index in range(3):
        write(topic.partition(index), 3)
    topics.close()
    compactor = Compactor(disk.start())
    steps = compactor.next_job(NOW, lambda: True)
    works = pauses = 0
    with pytest.raises(StopIteration):
        while True:
            work = next(steps)
            if work is None:
                pauses += 1
            else:
                works += 1
                work()
    assert works == 3
    assert pauses >= 3


def test_the_search_pauses_between_topics_without_work(disk: Disk) -> None:
    """There may be a hundred thousand of them."""
    topics = disk.start()
    for number in range(20):
        assert isinstance(topics.create(NewTopic(f"t{number}", disk.topic_id(), 1), NOW), Topic)
    assert len(list(Compactor(topics).next_job(NOW, lambda: True))) >= 20
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))
    assert len(list(housekeeping.round(NOW, lambda: True))) >= 40


def test_the_state_of_deleted_topics_is_removed(disk: Disk) -> None:
    """However many topics are created and deleted."""
    topics = disk.start()
    create(topics, disk, "t", partitions=2)
    write(topics.all()[0].partition(0), 50)
    write(topics.all()[0].partition(1), 3)
    topics.close()
    topics = disk.start()
    topic = topics.all()[0]
    compactor = Compactor(topics)
    run(due(compactor))
    compactor.failed(topic.partition(1))
    compactor._stuck_at[topic.topic_id, 0] = 7
    assert compactor._next_looks
    topics.delete(topic, NOW)
    assert not (compactor._next_looks or compactor._not_before or compactor._stuck_at)
    assert due(compactor) is None


def test_a_topic_deleted_while_its_log_is_opened_is_not_compacted(disk: Disk) -> None:
    """The search continues without it."""
    topics = disk.start()
    topic = create(topics, disk, "t")
    write(topic.partition(0), 50)
    topics.close()
    topics = disk.start()
    compactor = Compactor(topics)
    steps = compactor.next_job(NOW, lambda: False)
    opening = next(steps)
    assert opening is not None
    opening()
    topics.delete(topics.all()[0], NOW)
    with pytest.raises(StopIteration) as stop:
        advance(steps)
    assert stop.value.value is None

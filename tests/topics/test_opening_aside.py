"""A log can be opened in another thread before it is used; its user finds it open, or waits."""

from __future__ import annotations

import errno
import threading

import pytest
from tests.log.compacting import drive
from tests.topics.disk import DATA, NOW, Disk, append, batch, create, sync, values

from headgate.domain.ids import Millis, TopicName
from headgate.log.compaction import Steps, Work
from headgate.log.filesystem import Fault
from headgate.log.log import Log
from headgate.topics import housekeeping as rounds
from headgate.topics.held_names import HeldNames
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

pytestmark = pytest.mark.timeout(30)


def restarted(disk: Disk, *, is_crash: bool = False) -> Topic:
    """Return a topic with a closed partition of two records."""
    return letters(restarted_topics(disk, is_crash=is_crash))


def letters(topics: Topics) -> Topic:
    """Return the topic of these tests."""
    found = topics.by_name("letters")
    assert found is not None
    return found


def restarted_topics(disk: Disk, *, is_crash: bool = False) -> Topics:
    """Return the topics of a node with that topic."""
    topics = disk.start()
    topic = create(topics, disk, "letters")
    append(topic, b"a", b"b")
    if is_crash:
        disk.files.crash()
    else:
        topics.close()
    return disk.start()


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_log_opened_aside_is_used(disk: Disk, is_crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the other thread reads it, once, also after a crash."""
    topic = restarted(disk, is_crash=is_crash)
    partition = topic.partition(0)
    opening = partition.opening()
    assert opening is not None
    assert partition.opening() is None, "it is on its way"
    thread = threading.Thread(target=opening)
    thread.start()
    thread.join()
    assert not partition.is_open, "nothing changes before somebody asks"
    monkeypatch.setattr(Topic, "load_log", None)
    assert partition.log_end_offset == 2
    assert partition.opening() is None
    assert values(topic) == [b"a", b"b"]
    assert append(topic, b"c") == 2


def test_a_use_before_the_opening_began_opens_the_log(disk: Disk) -> None:
    """The opening in the other thread then does nothing."""
    topic = restarted(disk)
    opening = topic.partition(0).opening()
    assert opening is not None
    log = topic.partition(0).log
    opening()
    assert topic.partition(0).log is log
    assert append(topic, b"c") == 2


@pytest.mark.interpreted
def test_a_use_during_the_opening_waits(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads never open it at the same time."""
    topic = restarted(disk)
    opened, may_go_on = [0], threading.Event()
    load, has_begun = topic.load_log, threading.Event()

    def slow(*given: object) -> Log:
        opened[0] += 1
        has_begun.set()
        may_go_on.wait()
        return load(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Topic, "load_log", lambda topic, *given: slow(*given))
    partition = topic.partition(0)
    opening = partition.opening()
    assert opening is not None
    thread = threading.Thread(target=opening)
    thread.start()
    has_begun.wait()
    threading.Timer(0.05, may_go_on.set).start()
    assert partition.log_end_offset == 2
    assert opened == [1]
    thread.join()


def test_an_error_of_the_opening_is_raised_at_the_use(disk: Disk) -> None:
    """The opening itself raises nothing; after the disk is repaired the log opens."""
    partition = restarted(disk, is_crash=True).partition(0)
    opening = partition.opening()
    assert opening is not None
    disk.files.inject(Fault(errno.EIO, "datasync", times=None))
    opening()
    with pytest.raises(OSError) as told:
        _ = partition.log
    assert told.value.errno == errno.EIO
    disk.files.heal()
    assert partition.log.log_end_offset == 2


def test_an_attempt_that_takes_long_is_repeated_seldom(disk: Disk) -> None:
    """Clients repeat their requests at once: without a pause the disk would be read all the time."""
    partition = restarted(disk).partition(0)
    began, clock = iter([40.0]), [100.0]
    partition.topic.shared.seconds = lambda: next(began, clock[0])
    opening = partition.opening()
    assert opening is not None
    disk.files.inject(Fault(errno.EIO, "pread"))
    opening()
    for clock[0] in (100.0, 699.0):
        with pytest.raises(OSError):
            _ = partition.log
        assert not partition.needs_opening
    clock[0] = 701.0
    assert partition.needs_opening
    assert partition.log.log_end_offset == 2


def test_an_unwritten_or_open_partition_needs_no_opening(disk: Disk) -> None:
    """There is no log to read."""
    topic = create(disk.start(), disk, "letters", 2)
    assert topic.partition(1).opening() is None
    append(topic, b"a")
    assert topic.partition(0).opening() is None


def until_opening(steps: Steps[None]) -> Work:
    """Run steps up to the next opening."""
    return next(work for work in steps if work is not None)


def test_housekeeping_opens_logs_aside_and_closes_them_again(disk: Disk) -> None:
    """For closed partitions, whether or not there was anything to delete."""
    topics = restarted_topics(disk)
    found = letters(topics)
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))  # the first leaves them alone
    steps = housekeeping.round(NOW)
    work = until_opening(steps)
    assert found.partition(0).is_opening
    work()
    drive(steps)
    assert not found.partition(0).is_open
    assert not found.partition(0).is_opening
    assert values(found) == [b"a", b"b"]


def test_housekeeping_keeps_a_log_open_that_is_in_use(disk: Disk) -> None:
    """It may be about to be compacted or written to."""
    topics = restarted_topics(disk)
    topic = letters(topics)
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))
    steps = housekeeping.round(NOW)
    until_opening(steps)()
    log = topic.partition(0).log
    drive(steps)
    assert topic.partition(0).is_open
    assert topic.partition(0).log is log


@pytest.mark.interpreted
def test_a_topic_deleted_while_its_log_is_opened_keeps_its_name_until_that_ends(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread recovers the log in the old directory; a new topic of that name loses nothing."""
    topics = restarted_topics(disk, is_crash=True)
    topic = letters(topics)
    opening = topic.partition(0).opening()
    assert opening is not None
    load, has_begun, may_go_on = topic.load_log, threading.Event(), threading.Event()

    def slow(*given: object) -> Log:
        has_begun.set()
        may_go_on.wait()
        return load(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Topic, "load_log", lambda topic, *given: slow(*given))
    thread = threading.Thread(target=opening)
    thread.start()
    has_begun.wait()
    assert topics.delete(topic, NOW) is None
    new = NewTopic("letters", disk.topic_id(), 1)
    freed: list[None] = []
    topics.held_names.when_free(topic.name, lambda: freed.append(None))
    assert topics.remove_deleted(), "there is something left to do"
    assert topics.refusal_of(new) is not None
    assert not freed
    assert "letters-0" in disk.files.listdir(DATA)
    drive(Housekeeping(topics).round(NOW))
    assert "letters-0" in disk.files.listdir(DATA)
    may_go_on.set()
    thread.join()
    monkeypatch.undo()
    topics.remove_deleted()
    assert freed == [None]
    assert "letters-0" not in disk.files.listdir(DATA)
    again = topics.create(new, NOW)
    assert isinstance(again, Topic)
    for at in range(5):
        append(again, b"%d" % at)
    disk.files.kill()
    assert values(letters(disk.start())) == [b"%d" % at for at in range(5)]


def test_a_topic_deleted_before_the_opening_began_is_removed_at_once(disk: Disk) -> None:
    """The opening then does nothing."""
    topics = restarted_topics(disk, is_crash=True)
    topic = letters(topics)
    opening = topic.partition(0).opening()
    assert opening is not None
    assert topics.delete(topic, NOW) is None
    assert "letters-0" not in disk.files.listdir(DATA)
    assert create(topics, disk, "letters").name not in topics.held_names
    changes = disk.files.operations
    opening()
    assert disk.files.operations == changes


def test_a_name_is_free_when_all_holders_released_it(disk: Disk) -> None:
    """The offsets of a topic and its directories are removed at different times."""
    held, freed = HeldNames(), list[int]()
    name = TopicName("letters")
    held.hold(name)
    held.hold(name)
    held.when_free(name, lambda: freed.append(1))
    held.release(name)
    assert name in held
    assert not freed
    held.release(name)
    assert name not in held
    assert freed == [1]
    held.when_free(name, lambda: freed.append(2))
    assert freed == [1, 2]


@pytest.mark.interpreted
def test_a_round_opens_a_closed_partition_once_and_again_when_records_expire(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are."""
    topics = disk.start()
    topic = create(topics, disk, "letters", 600, retention_ms="1000")
    for index in range(600):
        append(topic, b"a", partition=index)
    topics.close()
    topics = disk.start()
    opened: list[int] = []
    load = Topic.load_log

    def counting(topic: Topic, *given: object) -> Log:
        opened.append(1)
        return load(topic, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Topic, "load_log", counting)
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))
    assert not opened, "the first round, at the start, leaves them alone"
    drive(housekeeping.round(NOW))
    assert len(opened) == 600
    assert not list(letters(topics).open_partitions())
    drive(housekeeping.round(Millis(NOW + 1000)))
    assert len(opened) == 600, "nothing can have expired"
    drive(housekeeping.round(Millis(NOW + 1001)))
    assert len(opened) == 1200
    assert letters(topics).partition(0).log_start_offset == 1


def test_a_closed_log_without_timestamps_expires_by_its_file(disk: Disk) -> None:
    """As an open one does: its records have no time of their own."""
    disk.files.now_ms = lambda: NOW
    topics = disk.start()
    topic = create(topics, disk, "letters", retention_ms="1000")
    assert not topic.partition(0).append(batch(b"a", timestamp=-1), NOW).error
    sync(topic)
    topics.close()
    topics = disk.start()
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))
    drive(housekeeping.round(NOW))
    assert not letters(topics).partition(0).is_open
    drive(housekeeping.round(Millis(NOW + 1001)))
    assert letters(topics).partition(0).log_start_offset == 1


def test_a_closed_log_without_records_is_not_opened_again(disk: Disk) -> None:
    """Nothing in it can expire, however old its file is."""
    disk.files.now_ms = lambda: NOW
    topics = disk.start()
    topic = create(topics, disk, "letters", retention_ms="1000")
    append(topic, b"a")
    drive(Housekeeping(topics).round(Millis(NOW + 1001)))
    assert topic.partition(0).log_start_offset == 1
    topics.close()
    topics = disk.start()
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))
    drive(housekeeping.round(Millis(NOW + 5000)))
    works = [work for work in housekeeping.round(Millis(NOW + 9000)) if work is not None]
    assert not works


def test_a_file_whose_age_cannot_be_read_is_looked_at_again(disk: Disk) -> None:
    """In the next round; this one goes on with the other logs."""
    disk.files.now_ms = lambda: NOW
    topics = disk.start()
    topic = create(topics, disk, "letters", retention_ms="1000")
    assert not topic.partition(0).append(batch(b"a", timestamp=-1), NOW).error
    sync(topic)
    assert topic.partition(0).expires_at() == NOW + 1001
    disk.files.remove(DATA / "letters-0" / f"{0:020}.log")
    assert topic.partition(0).expires_at() == 0


def test_closed_logs_are_checked_again_after_a_change_of_settings(disk: Disk) -> None:
    """A shorter retention takes effect in the next round."""
    topics = restarted_topics(disk)
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))
    drive(housekeeping.round(NOW))
    topics.set_overrides(letters(topics), {"retention.ms": "5"}, NOW)
    drive(housekeeping.round(Millis(NOW + 10)))
    assert letters(topics).partition(0).log_start_offset == 2


def test_a_round_recovers_some_logs_after_a_crash(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is tried in turn; failing ones do not delay the others."""
    monkeypatch.setattr(rounds, "_RECOVERED_A_ROUND", 2)
    topics = disk.start()
    topic = create(topics, disk, "letters", 5)
    for index in range(5):
        append(topic, b"a", partition=index)
    disk.files.crash()
    topics = disk.start()
    housekeeping = Housekeeping(topics)
    drive(housekeeping.round(NOW))
    for at_least in (2, 4, 5):
        drive(housekeeping.round(NOW))
        assert len(list(letters(topics).open_partitions())) == at_least

"""Waiters: which events wake them, and that none is kept without need."""

from __future__ import annotations

from headgate.domain.ids import TopicId
from headgate.topics.waiters import Waiters

LETTERS, NUMBERS = TopicId(b"\1" * 16), TopicId(b"\2" * 16)


def test_bytes_of_all_partitions_count_together() -> None:
    """The waiter is called when no byte is missing, and not before."""
    waiters, called = Waiters(), []
    waiters.add([(LETTERS, 0), (NUMBERS, 3)], 100, lambda: called.append("now"))
    waiters.notify((LETTERS, 0), 60)
    waiters.notify((LETTERS, 1), 1000)
    waiters.notify((NUMBERS, 3), 39)
    assert called == []
    waiters.notify((NUMBERS, 3), 1)
    assert called == ["now"]


def test_a_waiter_is_called_once_and_removed() -> None:
    """Also one that names a partition twice."""
    waiters, called = Waiters(), []
    waiters.add([(LETTERS, 0), (LETTERS, 0), (LETTERS, 1)], 1, lambda: called.append("now"))
    waiters.notify((LETTERS, 0), 5)
    waiters.notify((LETTERS, 1), 5)
    waiters.wake_all((LETTERS, 0))
    assert called == ["now"]
    assert len(waiters) == 0


def test_a_removed_waiter_is_not_called() -> None:
    """After a timeout; removing it again does nothing, and other waiters stay."""
    waiters, called = Waiters(), []
    first = waiters.add([(LETTERS, 0)], 1, lambda: called.append("first"))
    waiters.add([(LETTERS, 0)], 1, lambda: called.append("second"))
    waiters.remove(first)
    waiters.remove(first)
    waiters.notify((LETTERS, 0), 1)
    assert called == ["second"]


def test_a_deleted_topic_wakes_all_of_its_waiters_and_no_others() -> None:
    """However many bytes are missing; one that waits for two of its partitions is called once."""
    waiters, called = Waiters(), []
    waiters.add([(LETTERS, 0), (LETTERS, 9)], 1 << 40, lambda: called.append("letters"))
    waiters.add([(NUMBERS, 0)], 1, lambda: called.append("numbers"))
    waiters.wake_topic(LETTERS)
    assert called == ["letters"]
    assert len(waiters) == 1


def test_a_waiter_may_register_again_in_its_callback() -> None:
    """It found too few bytes; the same `notify` does not call it twice."""
    waiters, called = Waiters(), []

    def look() -> None:
        called.append("look")
        waiters.add([(LETTERS, 0)], 10, look)

    waiters.add([(LETTERS, 0)], 10, look)
    waiters.notify((LETTERS, 0), 1000)
    assert called == ["look"]
    waiters.notify((LETTERS, 0), 10)
    assert called == ["look", "look"]


def test_a_waiter_of_very_many_partitions_is_woken() -> None:
    """By records in any of them, and by the deletion of a topic."""
    waiters, woken = Waiters(), []
    keys = [(TopicId(b"w" * 16), index) for index in range(5000)]
    waiters.add(keys, 10, lambda: woken.append("bytes"))
    waiters.notify((TopicId(b"o" * 16), 7), 100)
    waiters.notify(keys[4000], 6)
    assert not woken
    waiters.notify(keys[17], 6)
    assert woken == ["bytes"]
    waiters.add(keys, 10, lambda: woken.append("topic"))
    waiters.wake_topic(TopicId(b"o" * 16))
    assert woken == ["bytes"]
    waiters.wake_topic(TopicId(b"w" * 16))
    assert woken == ["bytes", "topic"]
    waiters.remove(waiters.add(keys, 10, lambda: woken.append("removed")))
    waiters.wake_all(keys[3])
    assert woken == ["bytes", "topic"]
    assert not len(waiters)

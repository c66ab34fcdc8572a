"""Which records share groups deliver, how many at once, how often, and to whom."""

from __future__ import annotations

import time
from typing import Any

from tests.differential.record_requests import NOW_MS, batch, delete_records, produce
from tests.differential.script import Script, Topic
from tests.differential.share_requests import (
    ACCEPT,
    LONG_MS,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    Consumer,
    configure,
    offsets,
    work,
    write,
)
from tests.differential.transaction_requests import Producer, complete, end, new
from tests.differential.transaction_requests import write as write_in_transaction


def whole_batches(ask: Script) -> None:
    """More than asked for, if the last batch has more; acquired in ranges of about the batch size."""
    consumer = work(ask, 4, 4, 4, 4, 4)
    consumer.wait(max_records=1)
    consumer.fetch(max_records=5)
    consumer.fetch(max_records=500, batch_size=1)
    consumer.fetch()


def ranges_of_the_batch_size(ask: Script) -> None:
    """They end where batches of the log end."""
    for size in (1, 3, 4, 5, 8, 12):
        topic = ask.topic(f"t{size}")
        configure(ask)
        write(ask, topic, 2, 3, 4, 1, 6)
        consumer = Consumer(ask, topic, f"m{size}")
        consumer.join()
        consumer.wait(batch_size=size)
        consumer.leave()


def the_number_of_records(ask: Script) -> None:
    """Record limit: exactly so many, in the middle of batches too."""
    consumer = work(ask, 4, 4, 4)
    ask.joins_ranges = True
    for most in (1, 2, 3, 4, 50):
        consumer.fetch(max_records=most, share_acquire_mode=RECORD_LIMIT, max_wait=LONG_MS)
    consumer.acknowledge((0, 11, [RELEASE]))
    consumer.fetch(max_records=5, share_acquire_mode=RECORD_LIMIT, max_wait=LONG_MS)
    consumer.fetch(max_records=50, share_acquire_mode=RECORD_LIMIT, max_wait=LONG_MS)


def no_records_at_all(ask: Script) -> None:
    """Asked for none, or for less than none."""
    consumer = work(ask, 4)
    consumer.wait(max_records=1, share_acquire_mode=RECORD_LIMIT)
    for most in (0, -1):
        consumer.fetch(max_records=most)
        consumer.fetch(max_records=most, share_acquire_mode=RECORD_LIMIT)


def an_old_version(ask: Script) -> None:
    """Version 1 has whole batches only."""
    consumer = work(ask, 4, 4)
    consumer.wait(version=1, max_records=2)
    consumer.fetch({0: [(0, 3, [ACCEPT])]}, version=1, max_wait=LONG_MS)
    consumer.acknowledge((4, 7, [ACCEPT]), version=1)


def until_the_limit(ask: Script) -> None:
    """A record is archived when it comes back after its last delivery."""
    consumer = work(ask, 1, settings={"delivery_count_limit": "3"})
    for _ in range(3):
        consumer.wait()
        consumer.acknowledge((0, 0, [RELEASE]))
        ask(offsets(ask.group))
    consumer.fetch()
    write(ask, consumer.topic, 1)
    consumer.wait()


def in_ever_smaller_batches(ask: Script) -> None:
    """Records that were delivered often come in fewer and fewer at once, the last time alone."""
    for limit, size in ((2, 4), (4, 8), (5, 8), (10, 16)):
        group_topic = ask.topic(f"t{limit}")
        configure(ask, delivery_count_limit=str(limit))
        write(ask, group_topic, size)
        consumer = Consumer(ask, group_topic, f"m{limit}")
        consumer.join()
        for number in range(limit * size):
            answer = consumer.fetch(max_wait=300) if number else consumer.wait()
            acquired = _acquired(answer)
            if not acquired:
                break
            consumer.acknowledge(*((first, last, [RELEASE]) for first, last in acquired))


def _acquired(answer: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        (one["first_offset"], one["last_offset"])
        for topic in answer["responses"]
        for partition in topic["partitions"]
        for one in partition["acquired_records"]
    ]


def when_locks_end(ask: Script) -> None:
    """To whoever waits, with the next count; the former owner can acknowledge no more."""
    consumer = work(ask, 4, settings={"record_lock_duration_ms": "1000"})
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait()
    other.wait()
    consumer.acknowledge((0, 3, [ACCEPT]), note="too late")
    other.acknowledge((0, 3, [ACCEPT]))
    consumer.fetch()


def when_renewed_locks_end(ask: Script) -> None:
    """A renewed record stays; the others come again."""
    consumer = work(ask, 4, settings={"record_lock_duration_ms": "2000"})
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait()
    other.fetch(max_wait=1_200)
    consumer.acknowledge((2, 3, [RENEW]), is_renew_ack=True)
    time.sleep(1.3)
    other.wait()
    consumer.acknowledge((0, 1, [ACCEPT]), note="too late")
    consumer.acknowledge((2, 3, [ACCEPT]))


def with_a_full_window(ask: Script) -> None:
    """No new records while there are as many in flight as may be; released ones come again."""
    consumer = work(ask, 60, 60, 60, settings={"partition_max_record_locks": "100"})
    consumer.wait(max_records=60)
    consumer.wait(max_records=60)
    consumer.fetch()
    consumer.acknowledge((10, 19, [RELEASE]))
    consumer.wait()
    consumer.fetch()
    consumer.acknowledge((30, 119, [ACCEPT]))
    consumer.fetch(note="the start has not moved")
    consumer.acknowledge((0, 29, [ACCEPT]))
    consumer.wait()


def with_a_full_window_and_a_record_limit(ask: Script) -> None:
    """Exactly as many as may be in flight."""
    settings = {"partition_max_record_locks": "100"}
    consumer = work(ask, 60, 60, settings=settings)
    consumer.wait(share_acquire_mode=RECORD_LIMIT)
    consumer.fetch(share_acquire_mode=RECORD_LIMIT)
    consumer.acknowledge((0, 9, [ACCEPT]))
    consumer.wait(share_acquire_mode=RECORD_LIMIT)


def _transactions(ask: Script, topic: Topic) -> Producer:
    """Write a committed, an aborted and an open transaction with a record without one after each."""
    producer = new(ask)
    for sequence, commit in enumerate((True, False)):
        ask(write_in_transaction(producer, topic, version=12, sequence=0))
        answer = ask(end(producer, commit=commit))
        complete(ask, producer)
        producer = producer.with_epoch(answer["producer_epoch"])
        ask(produce(topic, {0: batch(f"plain {sequence}")}))
    ask(write_in_transaction(producer, topic, version=12, sequence=0))
    ask(produce(topic, {0: batch("last")}))
    return producer


def committed_records_only(ask: Script) -> None:
    """Nothing of aborted transactions, and nothing behind an open one."""
    topic = ask.topic()
    configure(ask, isolation_level="read_committed")
    producer = _transactions(ask, topic)
    consumer = Consumer(ask, topic)
    consumer.join()
    for _ in range(4):
        consumer.fetch(max_wait=1_500)
    ask(offsets(ask.group))
    waiting = ask.later(consumer.fetch_request(max_wait=LONG_MS), consumer.member)
    ask(end(producer, commit=True))
    waiting()


def records_of_open_transactions(ask: Script) -> None:
    """All of them, and their markers take offsets."""
    topic = ask.topic()
    configure(ask)
    _transactions(ask, topic)
    consumer = Consumer(ask, topic)
    consumer.join()
    consumer.wait()
    ask(offsets(ask.group))


def records_that_are_deleted(ask: Script) -> None:
    """The start moves with the log; what was acquired below can be acknowledged without effect."""
    consumer = work(ask, 4, 4, 4)
    consumer.wait(max_records=4)
    ask(delete_records(consumer.topic.name, {0: 6}))
    consumer.wait()
    consumer.acknowledge((0, 3, [ACCEPT]))
    consumer.acknowledge((6, 11, [ACCEPT]))
    ask(offsets(ask.group))


def from_the_latest_on(ask: Script) -> None:
    """A group without a setting begins at the end."""
    topic = ask.topic()
    write(ask, topic, 3)
    consumer = Consumer(ask, topic)
    consumer.join()
    consumer.fetch(max_wait=1_000)
    ask(offsets(ask.group))
    waiting = ask.later(consumer.fetch_request(max_wait=LONG_MS), consumer.member)
    write(ask, topic, 2)
    waiting()
    ask(offsets(ask.group))


def from_a_duration_on(ask: Script) -> None:
    """A group begins at the first record of the last hours."""
    topic = ask.topic()
    configure(ask, auto_offset_reset="by_duration:PT2H")
    for hours in (3, 1):
        ask(produce(topic, {0: batch("a", "b", timestamp=NOW_MS - hours * 3_600_000)}))
    consumer = Consumer(ask, topic)
    consumer.join()
    consumer.wait()
    ask(offsets(ask.group))


def to_two_members(ask: Script) -> None:
    """Each record to one of them; what one rejects the other never gets."""
    consumer = work(ask, 4, 4)
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait(max_records=4)
    other.wait(max_records=4)
    consumer.acknowledge((0, 1, [REJECT]), (2, 3, [RELEASE]))
    other.wait()
    other.acknowledge((2, 7, [ACCEPT]))
    ask(offsets(ask.group))


def to_who_waits(ask: Script) -> None:
    """Woken by new records, and by records that another member releases."""
    consumer = work(ask, 2)
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait()
    other.fetch()
    waiting = ask.later(other.fetch_request(max_wait=LONG_MS), "n")
    consumer.acknowledge((0, 1, [RELEASE]))
    other.advance(waiting())
    waiting = ask.later(other.fetch_request(max_wait=LONG_MS), "n")
    write(ask, consumer.topic, 3)
    waiting()


def with_settings_that_change(ask: Script) -> None:
    """What comes next follows them."""
    consumer = work(ask, 1, 1, 1)
    consumer.wait(max_records=1)
    configure(ask, delivery_count_limit="2", record_lock_duration_ms="20000")
    consumer.wait(max_records=1)
    consumer.acknowledge((0, 1, [RELEASE]))
    consumer.wait(max_records=2)
    consumer.acknowledge((0, 0, [RELEASE]))
    consumer.wait(max_records=2)

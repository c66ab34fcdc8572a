"""Offsets of share groups as administrators see and change them, with records in flight or complete."""

from __future__ import annotations

from tests.differential.record_requests import delete_records
from tests.differential.requests import delete_groups
from tests.differential.script import Script
from tests.differential.share_requests import (
    ACCEPT,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    Consumer,
    alter,
    beat,
    configure,
    delete,
    describe,
    is_assigned,
    offsets,
    work,
    write,
)


def of_records_in_flight(ask: Script) -> None:
    """Nothing moves until something is acknowledged; the lag counts what is complete."""
    consumer = work(ask, 10)
    ask(offsets(ask.group))
    consumer.wait()
    ask(offsets(ask.group))
    for version in (0, 1):
        consumer.acknowledge((version * 2, version * 2, [ACCEPT]))
        ask(offsets(ask.group, version=version))
    consumer.acknowledge((9, 9, [REJECT]))
    ask(offsets(ask.group))
    consumer.acknowledge((3, 8, [RELEASE]))
    ask(offsets(ask.group))
    consumer.acknowledge((1, 1, [ACCEPT]))
    ask(offsets(ask.group))
    write(ask, consumer.topic, 5)
    ask(offsets(ask.group))
    ask(offsets(ask.group, {consumer.topic.name: [0]}))
    ask(offsets(ask.group, {}))


def of_deleted_records(ask: Script) -> None:
    """The log begins behind the start offset."""
    consumer = work(ask, 4, 4)
    consumer.wait(max_records=4)
    consumer.acknowledge((0, 1, [ACCEPT]))
    ask(delete_records(consumer.topic.name, {0: 6}))
    ask(offsets(ask.group))


def altered_before_the_first_fetch(ask: Script) -> None:
    """A group begins where it is told."""
    topic = ask.topic("t", 2)
    write(ask, topic, 5)
    ask(alter(ask.group, {topic.name: {0: 3}}))
    ask(offsets(ask.group))
    consumer = Consumer(ask, topic)
    consumer.join()
    consumer.wait(max_records=1, share_acquire_mode=RECORD_LIMIT)
    ask(alter(ask.group, {topic.name: {0: 0}}))
    ask(offsets(ask.group))


def altered_to_odd_offsets(ask: Script) -> None:
    """Negative ones, and ones beyond the end."""
    topic = ask.topic("t", 2)
    write(ask, topic, 5)
    for offset in (-2, -1, 0, 5, 6, 1 << 40):
        ask(alter(ask.group, {topic.name: {0: offset}}), note=f"{offset}")
        ask(offsets(ask.group))
    ask(alter(ask.group, {}))
    ask(alter(ask.group, {topic.name: {}}))
    ask(alter(ask.group, {topic.name: {-1: 0, 1: 1}}))
    ask(offsets(ask.group))
    ask(describe(ask.group))


def altered_for_several_topics(ask: Script) -> None:
    """Each has its own result."""
    one, two = ask.topic("one", 2), ask.topic("two")
    ask(alter(ask.group, {one.name: {0: 1, 1: 2}, two.name: {0: 3, 1: 4}}))
    ask(offsets(ask.group))
    ask(offsets(ask.group, {one.name: [1], two.name: [0]}))
    ask(delete(ask.group, one.name))
    ask(offsets(ask.group))
    ask(delete(ask.group, one.name, two.name))
    ask(offsets(ask.group))


def what_is_wrong_with_requests_for_share_offsets(ask: Script) -> None:
    """Groups without a name, topics without a name."""
    topic = ask.topic()
    for group in ("", ask.group):
        ask(offsets(group))
        ask(alter(group, {"": {0: 0}}))
        ask(alter(group, {topic.name: {0: 0}}))
        ask(delete(group, ""))
        ask(delete(group, topic.name))
    ask(offsets(ask.group, {"": [0]}))
    ask(offsets(ask.group, {"not-there": [0]}))


def deleted_and_begun_anew(ask: Script) -> None:
    """A topic whose offsets were deleted is initialized again by the next member."""
    consumer = work(ask, 5)
    consumer.wait()
    consumer.acknowledge((0, 2, [ACCEPT]))
    consumer.close()
    ask(beat(ask.group, "m", -1), "m")
    ask(delete(ask.group, consumer.topic.name))
    ask(offsets(ask.group))
    consumer.join()
    ask(offsets(ask.group))


def of_a_deleted_group(ask: Script) -> None:
    """A new group of the same name knows nothing of the former one."""
    consumer = work(ask, 5)
    consumer.wait()
    consumer.acknowledge((0, 2, [ACCEPT]))
    consumer.close()
    ask(beat(ask.group, "m", -1), "m")
    ask(delete_groups(ask.group))
    ask(offsets(ask.group))
    ask(beat(ask.group, "m", 0, consumer.topic.name), "m")
    ask.until(beat(ask.group, "m", 2), is_assigned, "m")
    ask(offsets(ask.group))
    configure(ask)

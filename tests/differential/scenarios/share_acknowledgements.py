"""Acknowledgements of share groups: their types, what is refused, what becomes of the records."""

from __future__ import annotations

from typing import Any

from tests.differential.script import Script
from tests.differential.share_requests import (
    ACCEPT,
    GAP,
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


def of_every_type(ask: Script) -> None:
    """By a request of its own, in both versions; released records come again, and are counted."""
    consumer = work(ask, 10)
    for version in (1, 2):
        consumer.wait()
        consumer.acknowledge((0, 1, [ACCEPT]), (2, 3, [RELEASE]), (4, 5, [REJECT]), version=version)
        consumer.acknowledge((6, 6, [GAP]), (7, 9, [RELEASE, REJECT, ACCEPT]), version=version)
        ask(offsets(ask.group), note=f"after version {version}")
    consumer.wait()


def that_come_with_a_fetch(ask: Script) -> None:
    """They are answered with what was acquired."""
    consumer = work(ask, 4, 4)
    consumer.wait(max_records=4)
    consumer.fetch({0: [(0, 3, [ACCEPT])]}, max_wait=LONG_MS)
    consumer.fetch({0: [(4, 5, [ACCEPT]), (6, 7, [REJECT])]})
    consumer.fetch({0: [(0, 7, [ACCEPT])]}, note="again")
    ask(offsets(ask.group))


def with_types_that_are_wrong(ask: Script) -> None:
    """None, too many, too few, unknown ones; nothing changes."""
    consumer = work(ask, 6)
    consumer.wait()
    for types in ([], [ACCEPT] * 2, [ACCEPT] * 4, [-1], [5], [ACCEPT, 9, ACCEPT], [RENEW]):
        for version in (1, 2):
            consumer.acknowledge((0, 2, types), note=f"{types}", version=version)
    consumer.fetch({0: [(0, 2, [7])]}, note="with a fetch")
    consumer.acknowledge((0, 5, [ACCEPT]))


def of_ranges_that_are_wrong(ask: Script) -> None:
    """Backwards, out of order, overlapping, beyond the end, below the start."""
    consumer = work(ask, 6, 6)
    consumer.wait(max_records=6)
    consumer.acknowledge((2, 1, [ACCEPT]), note="backwards")
    consumer.acknowledge((4, 5, [ACCEPT]), (0, 1, [ACCEPT]), note="out of order")
    consumer.acknowledge((0, 3, [ACCEPT]), (2, 5, [ACCEPT]), note="overlapping")
    consumer.acknowledge((0, 3, [ACCEPT]), (3, 5, [ACCEPT]), note="overlapping by one")
    consumer.acknowledge((0, 6, [ACCEPT]), note="one too many")
    consumer.acknowledge((6, 7, [ACCEPT]), note="not acquired")
    consumer.acknowledge((20, 30, [ACCEPT]), note="beyond the log")
    consumer.acknowledge((-1, 0, [ACCEPT]), note="negative")
    consumer.acknowledge((0, 1, [ACCEPT]))
    consumer.acknowledge((0, 1, [ACCEPT]), note="below the start")
    consumer.acknowledge((0, 3, [ACCEPT]), note="begins below the start")
    consumer.fetch()


def given_twice(ask: Script) -> None:
    """Of records that are complete, in the middle of the window and at its start."""
    consumer = work(ask, 6)
    consumer.wait()
    consumer.acknowledge((3, 4, [ACCEPT]))
    consumer.acknowledge((3, 4, [ACCEPT]), note="again")
    consumer.acknowledge((2, 5, [ACCEPT]), note="around")
    consumer.acknowledge((0, 2, [REJECT]))
    consumer.acknowledge((0, 2, [ACCEPT]), note="below the start")
    consumer.acknowledge((5, 5, [RELEASE]))
    consumer.acknowledge((5, 5, [ACCEPT]), note="released")


def of_all_and_again(ask: Script) -> None:
    """When the window is empty."""
    consumer = work(ask, 6)
    consumer.wait()
    consumer.acknowledge((0, 5, [ACCEPT]))
    consumer.acknowledge((0, 5, [ACCEPT]))
    consumer.acknowledge((6, 6, [ACCEPT]))
    ask(offsets(ask.group))


def of_what_another_member_has(ask: Script) -> None:
    """Refused; the owner is not disturbed."""
    consumer = work(ask, 4, 4)
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait(max_records=4)
    other.wait()
    other.acknowledge((0, 3, [ACCEPT]), note="all of another's")
    other.acknowledge((2, 5, [ACCEPT]), note="some of another's")
    consumer.acknowledge((0, 3, [ACCEPT]))
    other.acknowledge((4, 7, [ACCEPT]))
    ask(offsets(ask.group))


def all_or_nothing(ask: Script) -> None:
    """A bad batch spoils the good ones of its partition, and not those of another."""
    topic = ask.topic("t", 2)
    configure(ask)
    for index in range(2):
        write(ask, topic, 4, index=index)
    consumer = Consumer(ask, topic)
    consumer.join()
    consumer.wait()
    consumer.fetch({1: ()}, max_wait=LONG_MS)
    consumer.fetch({0: [(0, 0, [ACCEPT]), (2, 9, [ACCEPT])], 1: [(0, 3, [ACCEPT])]})
    ask(offsets(ask.group))
    consumer.acknowledge((0, 3, [ACCEPT]))
    ask(offsets(ask.group))


def of_single_records(ask: Script) -> None:
    """One by one, from the end; the start moves in the end."""
    consumer = work(ask, 5)
    consumer.wait()
    for offset in (4, 2, 3, 1, 0):
        consumer.acknowledge((offset, offset, [ACCEPT]))
        ask(offsets(ask.group))


def that_renew(ask: Script) -> None:
    """With the flag, without it, in a fetch, beside other types, and of what is not acquired."""
    consumer = work(ask, 6)
    consumer.wait()
    nothing: dict[str, Any] = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    consumer.acknowledge((0, 1, [RENEW]), note="without the flag")
    consumer.acknowledge((0, 1, [RENEW]), is_renew_ack=True)
    consumer.acknowledge((0, 3, [RENEW, ACCEPT, RENEW, RELEASE]), is_renew_ack=True)
    consumer.acknowledge((0, 3, [RENEW]), is_renew_ack=True, note="not all acquired")
    consumer.fetch({0: [(4, 5, [RENEW])]}, is_renew_ack=True, **nothing)
    consumer.fetch({0: [(4, 5, [RENEW])]}, is_renew_ack=True, note="wants records")
    consumer.fetch({0: [(4, 5, [RENEW])]}, note="without the flag")
    consumer.acknowledge((4, 5, [ACCEPT]), is_renew_ack=True, note="nothing to renew")
    consumer.fetch()


def that_renew_where_it_is_off(ask: Script) -> None:
    """The group does not allow it."""
    consumer = work(ask, 3, settings={"renew_acknowledge_enable": "false"})
    consumer.wait()
    consumer.acknowledge((0, 1, [RENEW]), is_renew_ack=True)
    consumer.acknowledge((0, 2, [RENEW, ACCEPT, ACCEPT]), is_renew_ack=True)
    consumer.acknowledge((0, 2, [ACCEPT]), is_renew_ack=True)


def in_a_part_of_a_batch(ask: Script) -> None:
    """What is left of a batch comes again in pieces."""
    consumer = work(ask, 8)
    consumer.wait()
    consumer.acknowledge((0, 7, [RELEASE, ACCEPT, RELEASE, RELEASE, REJECT, RELEASE, ACCEPT, RELEASE]))
    consumer.wait(max_records=2, share_acquire_mode=RECORD_LIMIT)
    consumer.fetch(max_records=1)
    consumer.fetch()
    ask(offsets(ask.group))

"""Transactional ids: how producers begin, add partitions, end, are fenced, and are described."""

from __future__ import annotations

from tests.differential.requests import create_partitions, find_coordinator
from tests.differential.script import Script
from tests.differential.transaction_requests import (
    TRANSACTIONS,
    Producer,
    add,
    add_all,
    add_offsets,
    again,
    complete,
    describe,
    end,
    ended,
    init,
    new,
)

NOBODY = 10**15
"""A producer id that no broker has given out yet."""


def found_by_its_coordinator(ask: Script) -> None:
    """In every version, by good and bad keys and types."""
    producer = new(ask)
    for version in range(1, 7):
        ask(find_coordinator(producer.name, version=version, key_type=TRANSACTIONS))
        ask(find_coordinator("", version=version, key_type=TRANSACTIONS))
    ask(find_coordinator(producer.name, "other", key_type=TRANSACTIONS))


def begun_in_every_version(ask: Script) -> None:
    """A new producer of the id each time: the epoch rises, the producer id stays."""
    producer = new(ask)
    for version in range(6):
        ask(init(producer.with_epoch(-1)._replace(id=-1), version))
    ask(describe(producer))


def begun_with_bad_values(ask: Script) -> None:
    """Timeouts, ids, and ids without epochs."""
    producer = new(ask)
    fresh = Producer(producer.name)
    for timeout_ms in (0, -1, 900_000, 900_001, 1):
        ask(init(fresh, timeout_ms=timeout_ms), note=f"timeout {timeout_ms}")
    ask(init(Producer("")))
    ask(init(Producer("", 5, 0)))
    ask(init(fresh._replace(id=5)))
    ask(init(fresh.with_epoch(5)))
    ask(init(fresh._replace(id=-2), 3))
    ask(init(fresh.with_epoch(5), timeout_ms=0))
    ask(init(Producer(""), timeout_ms=0))
    ask(describe(producer))


def begun_again_with_its_epoch(ask: Script) -> None:
    """The producer goes on; its repeated request is answered as before; older and foreign ones are fenced."""
    first = new(ask)
    second = again(ask, first)
    ask(init(first), note="repeated")
    ask(init(first), note="repeated again")
    third = again(ask, second)
    for version in (3, 4, 5):
        ask(init(first, version), note="old")
        ask(init(third.with_epoch(third.epoch + 1), version), note="future")
        ask(init(third._replace(id=NOBODY), version), note="foreign")
    ask(init(Producer(f"{ask.name}-unknown", NOBODY, 3)), note="an id that nobody has used")
    ask(describe(first, Producer(f"{ask.name}-unknown")))
    fresh = again(ask, Producer(first.name))
    ask(init(third), note="another has begun since")
    ask(init(fresh))


def begun_with_another_timeout(ask: Script) -> None:
    """The latest counts."""
    producer = new(ask, timeout_ms=10_000)
    ask(describe(producer))
    again(ask, producer, timeout_ms=20_000)
    ask(describe(producer))
    ask(init(producer, timeout_ms=0))
    ask(describe(producer))


def partitions_added_in_every_version(ask: Script) -> None:
    """To an open transaction that grows; twice; none at all."""
    topic = ask.topic(partitions=6)
    producer = new(ask)
    ask(add(producer, {}))
    ask(add(producer, {topic.name: []}))
    for version in range(6):
        ask(add(producer, {topic.name: [version]}, version))
        ask(add(producer, {topic.name: [version, 0]}, version), note="again")
    ask(describe(producer))
    ended(ask, producer, commit=True, version=3)


def partitions_that_are_not_there(ask: Script) -> None:
    """One bad partition, and none of the others is tried."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    for version in (0, 3, 4, 5):
        for partitions in (
            {topic.name: [0, 9]},
            {topic.name: [0], "no-such-topic": [0]},
            {topic.name: [-1, 1]},
            {"no-such-topic": [0, 1]},
            {"": [0]},
            {topic.name: [0], "__consumer_offsets": [0]},
            {"__transaction_state": [0]},
        ):
            ask(add(producer, partitions, version), note=str(list(partitions.values())))
    ask(describe(producer))


def topics_without_partitions(ask: Script) -> None:
    """They are no part of the transaction."""
    topic = ask.topic()
    producer = new(ask)
    for version in (3, 5):
        asked: list[dict[str, list[int]]] = [
            {},
            {"no-such-topic": []},
            {topic.name: []},
            {topic.name: [0], "no-such-topic": []},
        ]
        for partitions in asked:
            ask(add(producer, partitions, version), note=str(list(partitions.values())))
            ask(describe(producer))


def partitions_of_new_ones(ask: Script) -> None:
    """A topic that has grown."""
    topic = ask.topic()
    producer = new(ask)
    ask(add(producer, {topic.name: [0, 1]}))
    ask.learn_topics(create_partitions({topic.name: 2}))
    ask.wait_for_partitions(topic, 2)
    ask(add(producer, {topic.name: [0, 1]}))
    ask(describe(producer))


def partitions_added_by_others(ask: Script) -> None:
    """By a producer of an older or a later epoch, of another id, of an id that nobody has."""
    topic = ask.topic()
    old = new(ask)
    producer = again(ask, old)
    for version in range(6):
        for note, other in _others(ask, old, producer).items():
            ask(add(other, {topic.name: [0]}, version), note=note)
            ask(add(other, {}, version), note=f"{note}, nothing")
    ask(describe(producer))


def _others(ask: Script, old: Producer, producer: Producer) -> dict[str, Producer]:
    """Who may not speak for the producer."""
    return {
        "old": old,
        "future": producer.with_epoch(producer.epoch + 1),
        "no epoch": producer.with_epoch(-1),
        "foreign": producer._replace(id=NOBODY),
        "unknown": Producer(f"{ask.name}-unknown", producer.id, producer.epoch),
        "no name": Producer("", producer.id, producer.epoch),
    }


def partitions_verified(ask: Script) -> None:
    """What brokers ask each other: before, during and after a transaction, and for others."""
    topic = ask.topic(partitions=3)
    old = new(ask)
    producer = again(ask, old)
    for version in (4, 5):
        ask(add(producer, {topic.name: [0]}, version, verify_only=True), note="nothing open")
    ask(add(producer, {topic.name: [0, 1]}))
    for version in (4, 5):
        for partitions in ([0], [0, 1], [0, 2], [2], [9], []):
            request = add(producer, {topic.name: partitions}, version, verify_only=True)
            ask(request, note=str(partitions))
        for note, other in _others(ask, old, producer).items():
            ask(add(other, {topic.name: [0]}, version, verify_only=True), note=note)
    ended(ask, producer, commit=True, version=3)
    ask(add(producer, {topic.name: [0]}, 5, verify_only=True), note="ended")


def partitions_of_several_producers(ask: Script) -> None:
    """In one request of a broker."""
    topic = ask.topic(partitions=2)
    one, two = new(ask, "one"), new(ask, "two")
    for version in (4, 5):
        ask(add_all({one: {topic.name: [0]}, two: {topic.name: [0, 9]}}, version))
        ask(add_all({one: {topic.name: [1]}, two: {topic.name: [1]}}, version, verify_only=True))
        ask(add_all({one: {topic.name: [0]}, two.with_epoch(9): {topic.name: [0]}}, version))
    ask(describe(one, two))


def groups_added(ask: Script) -> None:
    """AddOffsetsToTxn in every version, for anybody, and of no group."""
    ask.topic()
    old = new(ask)
    producer = again(ask, old)
    ask(add_offsets(producer, ""))
    for version in range(5):
        for note, other in _others(ask, old, producer).items():
            ask(add_offsets(other, ask.group, version), note=note)
        ask(add_offsets(producer, ask.group, version))
    ask(describe(producer))
    ended(ask, producer, commit=False, version=3)


def ended_in_every_version(ask: Script) -> None:
    """Committed and aborted in turn."""
    topic = ask.topic()
    producer = new(ask)
    for version in range(6):
        for commit in (True, False):
            ask(add(producer, {topic.name: [0]}))
            producer = ended(ask, producer, commit=commit, version=version)


def ended_by_others(ask: Script) -> None:
    """Open or not."""
    topic = ask.topic()
    old = new(ask)
    producer = again(ask, old)
    for state in ("nothing open", "open"):
        for version in range(6):
            for note, other in _others(ask, old, producer).items():
                for commit in (True, False):
                    ask(end(other, commit=commit, version=version), note=f"{note}, {state}")
        ask(add(producer, {topic.name: [0]}))
    ask(describe(producer))


def ended_twice_without_new_epochs(ask: Script) -> None:
    """The same way is well, the other way is not; with nothing begun neither is."""
    topic = ask.topic()
    producer = new(ask)
    for version in (0, 4):
        for commit in (True, False):
            ask(end(producer, commit=commit, version=version), note="nothing begun")
    for commit in (True, False):
        for version in (1, 3, 4):
            ask(add(producer, {topic.name: [0]}))
            ended(ask, producer, commit=commit, version=version)
            ask(end(producer, commit=commit, version=version), note="the same way")
            ask(end(producer, commit=not commit, version=version), note="the other way")
    ask(describe(producer))


def ended_twice_with_new_epochs(ask: Script) -> None:
    """What is repeated is told by its epoch."""
    topic = ask.topic()
    first = new(ask)
    for commit in (True, False):
        ask(add(first, {topic.name: [0]}))
        second = ended(ask, first, commit=commit)
        ask(end(first, commit=commit), note="repeated")
        ask(end(first, commit=not commit), note="the other way")
        ask(end(first, commit=commit, version=4), note="repeated, without new epochs")
        ask(end(second, commit=True), note="nothing open")
        ask(describe(second))
        first = second


def aborted_with_nothing_open(ask: Script) -> None:
    """Each abort of version 5 raises the epoch."""
    producer = new(ask)
    for _ in range(3):
        producer = ended(ask, producer, commit=False)
        ask(end(producer, commit=True))
        ask(end(producer, commit=False, version=4), note="without new epochs")
    topic = ask.topic()
    ask(add(producer, {topic.name: [0]}))
    producer = ended(ask, producer, commit=True)
    producer = ended(ask, producer, commit=False)
    ask(describe(producer))


def fenced_by_a_new_producer(ask: Script) -> None:
    """The open transaction is aborted first; what the old one says then."""
    topic = ask.topic()
    old = new(ask)
    ask(add(old, {topic.name: [0]}))
    ask(init(Producer(old.name)), note="while it is open")
    complete(ask, old)
    producer = again(ask, Producer(old.name))
    for version in range(6):
        ask(add(old, {topic.name: [0]}, version))
        ask(end(old, commit=True, version=version))
        ask(end(old, commit=False, version=version))
        ask(add_offsets(old, ask.group, min(version, 4)))
        ask(init(old, max(version, 3)))
    ask(add(producer, {topic.name: [0]}))
    ended(ask, producer, commit=True)


def begun_again_while_its_transaction_is_open(ask: Script) -> None:
    """With its own epoch: that is aborted too, and the epoch rises by more than one."""
    topic = ask.topic()
    first = new(ask)
    for version in (3, 4, 5):
        ask(add(first, {topic.name: [0]}))
        ask(init(first, version))
        complete(ask, first)
        first = again(ask, first, version=version)
    ask(describe(first))


def aborted_after_its_time(ask: Script) -> None:
    """The producer may begin again with the epoch it had; others hear that it is fenced."""
    topic = ask.topic()
    first = new(ask, timeout_ms=1)
    ask(add(first, {topic.name: [0]}))
    complete(ask, first)
    ask(add(first, {topic.name: [0]}))
    ask(end(first, commit=True, version=3))
    ask(end(first, commit=True))
    ask(end(first, commit=False, version=3))
    ask(end(first, commit=False))
    second = again(ask, first)
    ask(add(first, {topic.name: [0]}))
    ask(init(first), note="repeated")
    ask(init(second))

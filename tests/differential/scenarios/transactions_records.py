"""Records of transactions: how they are written, verified, ended, and read once they are committed."""

from __future__ import annotations

from typing import Any

from tests.differential.record_requests import NOW_MS, batch, delete_records, list_offsets, produce, read
from tests.differential.requests import delete_topics
from tests.differential.script import Script
from tests.differential.transaction_requests import (
    Producer,
    add,
    again,
    complete,
    describe,
    end,
    ended,
    init,
    new,
    read_committed,
    write,
)

NOBODY = 10**15
"""A producer id that no broker has given out yet."""
ADDS_SINCE = 12
"""From this version on Produce adds partitions to the transaction."""


def written_in_every_version(ask: Script) -> None:
    """To partitions that were added; then committed and aborted in turn."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    for sequence, version in enumerate(range(3, 14)):
        ask(add(producer, {topic.name: [0]}))
        ask(write(producer, topic, f"{version}", version, sequence=sequence))
        ended(ask, producer, commit=version % 2 == 0, version=4)
    ask(read(topic, {0: 0}))
    ask(read_committed(topic))
    ask(describe(producer))


def written_without_being_added(ask: Script) -> None:
    """New versions add the partition, older ones are refused."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    for version in range(3, 12):
        ask(write(producer, topic, version=version))
    ask(write(producer, topic))
    ask(describe(producer))
    ask(write(producer, topic, version=11, index=1), note="another partition")
    ask(write(producer, topic, version=13, index=1), note="another partition")
    ask(write(producer, topic, version=13, sequence=1, index=9), note="no partition")
    ask(write(producer, topic, version=11, sequence=1), note="a partition that is open")
    ask(describe(producer))
    ended(ask, producer, commit=True)
    ask(write(producer, topic, version=11), note="after the end, in the old epoch")
    ask(write(producer, topic, sequence=2), note="after the end, in the old epoch")
    ask(read_committed(topic))


def written_by_others(ask: Script) -> None:
    """By a producer of another epoch, of another id, of an id that nobody has."""
    topic = ask.topic(partitions=2)
    old = new(ask)
    producer = again(ask, old)
    others = {
        "old": old,
        "future": producer.with_epoch(producer.epoch + 1),
        "foreign": producer._replace(id=NOBODY),
        "unknown": Producer(f"{ask.name}-unknown", producer.id, producer.epoch),
        "no name": Producer("", producer.id, producer.epoch),
    }
    for state in ("nothing open", "open", "written"):
        for version in (3, 10, 11, 12, 13):
            for note, other in others.items():
                ask(write(other, topic, version=version), note=f"{note}, {state}")
        ask(add(producer, {topic.name: [0]}))
        if state == "open":
            ask(write(producer, topic))
    ask(write(producer, topic, sequence=1).but(transactional_id=None), note="no name at all")
    ask(describe(producer))
    ask(read(topic, {0: 0}))


def batches_that_are_none_of_the_transaction(ask: Script) -> None:
    """Of an idempotent producer, or of none, in a request with a transactional id; with too few acks."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    identity: dict[str, Any] = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    plain = produce(topic, {0: batch("plain")})
    idempotent = produce(topic, {0: batch("idempotent", base_sequence=0, **identity)})
    ask(plain.but(transactional_id=producer.name), note="no producer")
    ask(idempotent.but(transactional_id=producer.name), note="idempotent")
    ask(write(producer, topic, sequence=1))
    later = produce(topic, {0: batch("idempotent", base_sequence=2, **identity)})
    ask(later, note="idempotent, in the transaction")
    ask(later.but(transactional_id=producer.name), note="idempotent, in the transaction")
    ask(write(producer, topic, sequence=2).but(acks=1), note="acks 1")
    both = produce(
        topic,
        {
            0: batch("a", base_sequence=3, is_transactional=True, **identity),
            1: batch("b", base_sequence=0, **identity),
        },
    )
    ask(both.but(transactional_id=producer.name), note="one of each")
    ended(ask, producer, commit=True)
    ask(read(topic, {0: 0, 1: 0}))


def sequences_in_transactions(ask: Script) -> None:
    """Repeated, with gaps, going on in the next epoch and in the next transaction of the same."""
    topic = ask.topic()
    producer = new(ask)
    ask(write(producer, topic, "first", sequence=5))
    ask(write(producer, topic, "first"))
    ask(write(producer, topic, "first"), note="repeated")
    ask(write(producer, topic, "third", sequence=2))
    ask(write(producer, topic, "second", sequence=1))
    follower = ended(ask, producer, commit=True)
    ask(write(producer, topic, "second", sequence=1), note="repeated after the end")
    ask(write(follower, topic, "next", sequence=2), note="not from 0")
    ask(write(follower, topic, "next"))
    ended(ask, follower, commit=True, version=4)
    ask(add(follower, {topic.name: [0]}))
    ask(write(follower, topic, "next", version=11, sequence=1))
    ask(write(follower, topic, "next", version=11), note="from 0 again")
    ended(ask, follower, commit=False, version=4)
    ask(read(topic, {0: 0}))


def a_transaction_that_begins_with_a_repeated_batch(ask: Script) -> None:
    """It is in the log already, in the transaction before."""
    topic = ask.topic()
    producer = new(ask)
    ask(add(producer, {topic.name: [0]}))
    ask(write(producer, topic, version=11))
    ended(ask, producer, commit=True, version=4)
    ask(add(producer, {topic.name: [0]}))
    ask(write(producer, topic, version=11), note="repeated")
    ask(read(topic, {0: 0}))
    ask(write(producer, topic, version=11, sequence=1), note="the next")


def _markers(ask: Script, version: int) -> None:
    topic = ask.topic(partitions=3)
    producer = new(ask)
    for commit in (True, False):
        ask(add(producer, {topic.name: [0, 1]}))
        ask(write(producer, topic, sequence=0 if version == 5 or commit else 1))
        producer = ended(ask, producer, commit=commit, version=version)
    ask(read(topic, {0: 0, 1: 0, 2: 0}))
    ask(read(topic, {0: 0, 1: 0, 2: 0}, isolation_level=1))


def markers_without_new_epochs(ask: Script) -> None:
    """Also in partitions that were added and never written."""
    _markers(ask, 4)


def markers_with_new_epochs(ask: Script) -> None:
    """They have the next epoch already."""
    _markers(ask, 5)


def markers_after_a_producer_is_fenced(ask: Script) -> None:
    """By another of its name, by itself, by its time: of which epoch they are."""
    topic = ask.topic()
    producer = new(ask)
    for fence in (Producer(producer.name), producer):
        ask(write(producer, topic))
        ask(init(fence), note="while it is open")
        complete(ask, producer)
        ask(write(producer, topic, sequence=1), note="by the old one")
        ask(write(producer, topic, version=11, sequence=1), note="by the old one")
        producer = again(ask, Producer(producer.name))
    producer = again(ask, producer, timeout_ms=1)
    ask(add(producer, {topic.name: [0]}))
    complete(ask, producer)
    ask(write(producer, topic), note="after its time")
    producer = again(ask, producer)
    ask(write(producer, topic))
    ended(ask, producer, commit=True)
    ask(read(topic, {0: 0}))
    ask(read_committed(topic))


def read_while_transactions_are_open(ask: Script) -> None:
    """In every version: up to the first open one, and what was aborted before."""
    topic = ask.topic()
    one, two, three = new(ask, "one"), new(ask, "two"), new(ask, "three")
    ask(produce(topic, {0: batch("plain")}))
    ask(write(one, topic, "one"))
    ask(write(two, topic, "two"))
    ask(write(three, topic, "three"))
    ask(produce(topic, {0: batch("plain")}))

    def look(versions: range) -> None:
        for version in versions:
            for offset in (0, 2, 5, 6, 99):
                ask(read_committed(topic, offset, version), note=f"from {offset}")

    look(range(4, 19))
    ended(ask, two, commit=False)
    look(range(12, 14))
    ended(ask, one, commit=True)
    look(range(12, 14))
    ended(ask, three, commit=False)
    look(range(4, 19))
    ask(read(topic, {0: 0}))


def aborted_transactions_that_a_fetch_is_told(ask: Script) -> None:
    """By where it begins, and how far it goes."""
    topic = ask.topic()
    producers = [new(ask, name) for name in "abc"]
    for number in range(3):
        for at, producer in enumerate(producers):
            sequence = 2 * number if at == 2 else 0
            ask(write(producer, topic, f"{number}", sequence=sequence))
            ask(write(producer, topic, f"{number}", sequence=sequence + 1))
            if at < 2:
                producers[at] = ended(ask, producer, commit=at == 1)
    for offset in range(0, 22, 3):
        ask(read_committed(topic, offset), note=f"from {offset}")
    ended(ask, producers[2], commit=False)
    for size in (70, 140):
        entry = {"partition_max_bytes": size}
        ask(read(topic, {0: 0}, isolation_level=1, partition=entry, max_bytes=size), note=f"{size} bytes")
    ask(read_committed(topic))


def offsets_listed_while_a_transaction_is_open(ask: Script) -> None:
    """Ends, starts, and times, in every version, of both isolations."""
    topic = ask.topic()
    producer = new(ask)
    ask(produce(topic, {0: batch("old", timestamp=NOW_MS - 120_000)}))
    ask(write(producer, topic, "open"))
    ask(produce(topic, {0: batch("new", timestamp=NOW_MS - 30_000)}))

    def look(versions: range) -> None:
        for version in versions:
            for isolation in (0, 1):
                for timestamp in (-1, -2, 0, NOW_MS - 90_000, NOW_MS - 60_000, NOW_MS - 45_000):
                    request = list_offsets(topic.name, {0: timestamp}, version, isolation_level=isolation)
                    ask(request, note=f"isolation {isolation}")
        for isolation in (0, 1):
            ask(list_offsets(topic.name, {0: -3}, 10, isolation_level=isolation), note="greatest time")

    look(range(2, 12))
    ended(ask, producer, commit=True)
    look(range(10, 11))


def records_deleted_while_a_transaction_is_open(ask: Script) -> None:
    """Its first ones, and all there are."""
    topic = ask.topic()
    one, two = new(ask, "one"), new(ask, "two")
    ask(write(one, topic, "a"))
    ask(write(one, topic, "b", sequence=1))
    ask(write(two, topic, "c"))
    for offset in (1, 2, -1):
        ask(delete_records(topic.name, {0: offset}))
        ask(read_committed(topic))
        ask(read_committed(topic, 3))
        ask(list_offsets(topic.name, {0: -1}, isolation_level=1))
        ask(list_offsets(topic.name, {0: -2}, isolation_level=1))
    ended(ask, one, commit=False)
    ended(ask, two, commit=True)
    ask(read_committed(topic, 3))


def a_topic_deleted_while_a_transaction_is_open(ask: Script) -> None:
    """The transaction ends without it."""
    topic, other = ask.topic("one"), ask.topic("other")
    producer = new(ask)
    ask(write(producer, topic))
    ask(write(producer, other))
    ask(delete_topics(topic.name))
    ask.wait_until(
        add(producer, {topic.name: [0]}),
        lambda answer: "unknown_topic_or_partition" in str(answer),
    )
    ask(describe(producer))
    ask(end(producer, commit=True))
    complete(ask, producer)
    ask(read_committed(other))


def transactions_in_a_compacted_topic(ask: Script) -> None:
    """Records need keys there."""
    topic = ask.topic(configs={"cleanup.policy": "compact"})
    producer = new(ask)
    identity: dict[str, Any] = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "is_transactional": True,
    }
    keyless = batch("x", key=None, base_sequence=0, **identity)
    for version in (11, 12):
        ask(produce(topic, {0: keyless}, version).but(transactional_id=producer.name))
    ask(write(producer, topic))
    ended(ask, producer, commit=True)
    ask(read_committed(topic))


def _several_partitions(ask: Script, version: int) -> None:
    topic = ask.topic(partitions=4)
    producer = new(ask)

    def records(sequence: int = 0, epoch: int = 0) -> bytes:
        identity: dict[str, Any] = {
            "producer_id": producer.id,
            "producer_epoch": epoch,
            "is_transactional": True,
        }
        return batch("v", timestamp=NOW_MS - 60_000, base_sequence=sequence, **identity)

    ask(add(producer, {topic.name: [0]}))
    asked: dict[str, dict[int, bytes | None]] = {
        "one not added": {0: records(), 1: records()},
        "one not there": {1: records(), 9: records()},
        "one of another epoch": {0: records(1, 3), 2: records()},
        "one of another epoch, one open": {0: records(1), 2: records(0, 3)},
        "one out of order": {0: records(7), 3: records()},
        "not from 0": {2: records(1)},
    }
    for note, partitions in asked.items():
        request = produce(topic, partitions, version).but(transactional_id=producer.name)
        ask(request, note=note)
    ask(describe(producer))
    ended(ask, producer, commit=True)
    ask(read_committed(topic))
    ask(read(topic, {0: 0, 1: 0, 2: 0, 3: 0}))


def several_partitions_in_one_request(ask: Script) -> None:
    """One not there, one refused: the others are written."""
    _several_partitions(ask, 11)


def several_partitions_in_one_request_that_adds_them(ask: Script) -> None:
    """The same in a later version."""
    _several_partitions(ask, 12)

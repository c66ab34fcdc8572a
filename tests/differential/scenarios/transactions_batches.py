"""Batches of transactions that are not plain: of several records, packed, repeated, refused, deleted."""

from __future__ import annotations

from typing import Any

from tests.differential.record_requests import (
    NOW_MS,
    batch,
    delete_records,
    epoch_ends,
    list_offsets,
    produce,
    read,
)
from tests.differential.script import Script, Topic
from tests.differential.transaction_requests import (
    Producer,
    add,
    again,
    complete,
    describe,
    describe_producers,
    end,
    ended,
    init,
    new,
    read_committed,
    write,
)
from tests.differential.wire import Request

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
MINUTE_MS = 60_000


def _batch(producer: Producer, *values: str, sequence: int = 0, **more: Any) -> bytes:
    return batch(
        *values,
        timestamp=NOW_MS - MINUTE_MS,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        is_transactional=True,
        **more,
    )


def _send(producer: Producer, topic: Topic, data: bytes, version: int = 12, index: int = 0) -> Request:
    return produce(topic, {index: data}, version).but(transactional_id=producer.name)


def batches_of_several_records(ask: Script) -> None:
    """Packed by each codec; sequences go on by the record."""
    topic = ask.topic()
    producer = new(ask)
    for number, codec in enumerate((0, GZIP, SNAPPY, LZ4, ZSTD)):
        data = _batch(producer, "a", "b", "c", sequence=3 * number, codec=codec)
        ask(_send(producer, topic, data))
    ask(_send(producer, topic, _batch(producer, "late", sequence=14)), note="inside the last batch")
    ask(_send(producer, topic, _batch(producer, "late", sequence=16)), note="a gap")
    ask(_send(producer, topic, _batch(producer, "a", "b", "c", sequence=3, codec=GZIP)), note="repeated")
    ask(read_committed(topic))
    ended(ask, producer, commit=True)
    ask(read_committed(topic, 4))
    ask(describe_producers({topic.name: [0]}))


def batches_that_repeat_older_ones(ask: Script) -> None:
    """Five are remembered, across the transactions of one epoch; not across epochs."""
    topic = ask.topic()
    producer = new(ask)
    for sequence in range(7):
        ask(add(producer, {topic.name: [0]}))
        ask(_send(producer, topic, _batch(producer, f"{sequence}", sequence=sequence), 11))
        if sequence % 2:
            ended(ask, producer, commit=True, version=4)
    ask(add(producer, {topic.name: [0]}))
    for sequence in range(8):
        ask(_send(producer, topic, _batch(producer, f"{sequence}", sequence=sequence), 11))
    follower = ended(ask, producer, commit=True)
    ask(_send(follower, topic, _batch(follower, "6", sequence=6)))
    ask(_send(follower, topic, _batch(follower, "0")))
    ask(read_committed(topic, 8))


def batches_that_are_refused(ask: Script) -> None:
    """Damaged, too large, of a control record, without a sequence or an epoch: they begin nothing."""
    topic = ask.topic(configs={"max.message.bytes": "1000"})
    producer = new(ask)
    for version in (11, 12):
        if version == 11:
            ask(add(producer, {topic.name: [0]}))
        good = _batch(producer, "good")
        wrong = {
            "cut short": good[:-1],
            "two batches": good + good,
            "damaged": good[:-1] + b"\xff",
            "too large": _batch(producer, "x" * 1000),
            "a control batch": _batch(producer, "x", is_control=True),
            "no sequence": _batch(producer, "x", sequence=-1),
            "no epoch": _batch(producer.with_epoch(-1), "x"),
        }
        for note, data in wrong.items():
            ask(_send(producer, topic, data, version), note=note)
            ask(describe(producer))
        ask(list_offsets(topic.name, {0: -1}, isolation_level=1))
        ask(describe_producers({topic.name: [0]}))
        producer = ended(ask, producer, commit=True)
    ask(read(topic, {0: 0}))


def batches_of_no_producer(ask: Script) -> None:
    """In a transaction, they say."""
    topic = ask.topic()
    producer = new(ask)
    ask(add(producer, {topic.name: [0]}))
    for version in (3, 11, 12, 13):
        for sequence in (-1, 0):
            ask(_send(producer, topic, _batch(Producer(producer.name), "x", sequence=sequence), version))


def markers_in_a_topic_with_the_brokers_time(ask: Script) -> None:
    """Records and markers have it alike."""
    topic = ask.topic(configs={"message.timestamp.type": "LogAppendTime"})
    producer = new(ask)
    ask(_send(producer, topic, _batch(producer, "a")))
    ended(ask, producer, commit=True)
    ask(list_offsets(topic.name, {0: NOW_MS - MINUTE_MS}, isolation_level=1))
    ask(read_committed(topic))


def a_session_of_a_committed_reader(ask: Script) -> None:
    """It is told of a new last stable offset, and of what was aborted, once."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    ask(write(producer, topic))
    more: dict[str, Any] = {"isolation_level": 1, "min_bytes": 0}
    opened = ask(read(topic, {0: 0, 1: 0}, session_epoch=0, **more))
    session = {"session_id": opened["session_id"]} | more
    ask(read(topic, {}, session_epoch=1, **session), note="nothing new")
    ask(write(producer, topic, sequence=1))
    ask(read(topic, {}, session_epoch=2, **session), note="a record of the open transaction")
    ended(ask, producer, commit=False)
    ask(read(topic, {}, session_epoch=3, **session), note="aborted")
    ask(read(topic, {0: 3}, session_epoch=4, **session), note="after it")
    ask(read(topic, {}, session_epoch=5, **session), note="nothing new")


def ends_of_epochs_while_a_transaction_is_open(ask: Script) -> None:
    """They are those of the log."""
    topic = ask.topic()
    producer = new(ask)
    ask(write(producer, topic))
    for version in range(2, 5):
        ask(epoch_ends(topic.name, {0: 0}, version))
    ended(ask, producer, commit=True)
    ask(epoch_ends(topic.name, {0: 0}))


def a_transaction_whose_records_are_deleted(ask: Script) -> None:
    """All of them, then its end: the producer goes on."""
    topic = ask.topic()
    producer = new(ask)
    ask(write(producer, topic))
    ask(delete_records(topic.name, {0: -1}))
    ask(describe_producers({topic.name: [0]}))
    ask(write(producer, topic, sequence=1))
    follower = ended(ask, producer, commit=False)
    ask(read_committed(topic, 1))
    ask(delete_records(topic.name, {0: -1}))
    ask(write(follower, topic))
    ended(ask, follower, commit=True)
    ask(read_committed(topic, 3))
    ask(describe_producers({topic.name: [0]}))


def partitions_named_twice(ask: Script) -> None:
    """In one topic, and in two entries of one topic."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    request = add(producer, {topic.name: [0, 0, 1]})
    ask(request)
    twice = [{"name": topic.name, "partitions": [0]}, {"name": topic.name, "partitions": [1]}]
    ask(request.but(v3_and_below_topics=twice), note="two entries")
    ended(ask, producer, commit=True)


def a_producer_that_is_idempotent_first(ask: Script) -> None:
    """Ids without transactions, by every version; what they may write."""
    topic = ask.topic()
    nameless = Request("init_producer_id", 5, {"transactional_id": None, "transaction_timeout": 1})
    for version in range(6):
        values = {"producer_id": -1, "producer_epoch": -1}
        answer = ask(Request("init_producer_id", version, nameless.values | values))
    for version in (3, 5):
        values = {"producer_id": answer["producer_id"], "producer_epoch": 0}
        ask(Request("init_producer_id", version, nameless.values | values), note="with an id")
    plain = Producer("", answer["producer_id"], 0)
    named = new(ask)
    data = batch("x", producer_id=plain.id, producer_epoch=0, base_sequence=0)
    ask(produce(topic, {0: data}))
    ask(_send(named, topic, _batch(plain, "in a transaction of another", sequence=1)))
    ask(write(named, topic))
    ended(ask, named, commit=True)
    ask(read_committed(topic))


def a_commit_while_its_name_is_taken(ask: Script) -> None:
    """The new producer is told to wait, the old one's commit comes too late."""
    topic = ask.topic()
    old = new(ask)
    ask(write(old, topic))
    ask(init(Producer(old.name)), note="the name is taken")
    complete(ask, old)
    for version in (1, 4, 5):
        ask(end(old, commit=True, version=version))
    producer = again(ask, Producer(old.name))
    ask(write(producer, topic))
    ended(ask, producer, commit=True)
    ask(read_committed(topic))

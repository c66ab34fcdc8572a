"""What administrators see of transactions, and how they end hanging ones: producers, markers, lists."""

from __future__ import annotations

from tests.differential.record_requests import batch, delete_records, produce, read
from tests.differential.requests import fetch
from tests.differential.script import Script
from tests.differential.transaction_requests import (
    Producer,
    add,
    add_offsets,
    again,
    complete,
    describe,
    describe_producers,
    end,
    ended,
    list_transactions,
    marker,
    new,
    read_committed,
    txn_commit,
    write,
    write_markers,
)

NOBODY = 10**15
"""A producer id that no broker has given out yet."""

GROUPS = "__consumer_offsets"


def described(ask: Script) -> None:
    """Known, unknown, without a name, twice, none."""
    topic = ask.topic(partitions=2)
    one, two = new(ask, "one"), new(ask, "two")
    ask(add(two, {topic.name: [1, 0]}))
    ask(describe(one, two, Producer(f"{ask.name}-unknown"), Producer("")))
    ask(describe(one, one))
    ask(describe())


def listed(ask: Script) -> None:
    """By states, ids, patterns, and how long they are open."""
    topic = ask.topic()
    names = [f"{ask.name}-{suffix}" for suffix in ("empty", "open", "done", "undone")]
    empty, is_open, done, undone = [new(ask, name.rpartition("-")[2]) for name in names]
    for each in (is_open, done, undone):
        ask(add(each, {topic.name: [0]}))
    ended(ask, done, commit=True)
    ended(ask, undone, commit=False)

    def lists(version: int, **filters: object) -> None:
        request = list_transactions(version, **filters)  # type: ignore[arg-type]
        answer = ask.only(request, "transaction_states", "transactional_id", names)
        assert answer["error_code"] in ("none", "invalid_regular_expression"), answer

    for version in (0, 1, 2):
        lists(version)
        for states in (
            ["Empty"],
            ["Ongoing", "CompleteCommit"],
            ["CompleteAbort", "PrepareCommit", "PrepareAbort", "Dead", "PrepareEpochFence"],
            ["ongoing"],
            ["ONGOING", "Ongoing"],
            ["", "Nothing"],
            ["Ongoing", "Ongoing"],
        ):
            lists(version, states=states)
        lists(version, ids=[is_open.id, empty.id])
        lists(version, ids=[NOBODY])
        lists(version, ids=[-1])
        lists(version, ids=[is_open.id], states=["Empty"])
    for longer_than_ms in (-1, 0, 1, 1_000_000, -2, 2**62):
        lists(1, longer_than_ms=longer_than_ms)
    for pattern in ("", ".*", f"{ask.name}-.*", ask.name, f".*{ask.name}-(open|done)", "(", "[", "a**", "\\"):
        lists(2, pattern=pattern)
    lists(2, pattern=".*-done", states=["Ongoing"])
    lists(2, pattern="(", states=["Nonsense"])


def producers_described(ask: Script) -> None:
    """Of partitions that have none, while one is open, after it has ended, and where there is nothing."""
    topic = ask.topic(partitions=3)
    producer = new(ask)
    partitions = {topic.name: [0, 1, 2, 9, -1], "no-such-topic": [0], "": [0], "bad/name": [0], ".": [0]}
    ask(describe_producers(partitions))
    ask(add(producer, {topic.name: [0, 1]}))
    ask(describe_producers(partitions))
    ask(write(producer, topic))
    ask(write(producer, topic, sequence=1))
    ask(describe_producers(partitions))
    producer = ended(ask, producer, commit=True)
    ask(describe_producers(partitions))
    ask(write(producer, topic, index=2))
    ask(describe_producers(partitions))
    ended(ask, producer, commit=False, version=4)
    ask(describe_producers(partitions))
    ask(describe_producers({}))
    ask(describe_producers({topic.name: []}))


def producers_without_transactions_described(ask: Script) -> None:
    """Idempotent ones, and none; some whose records are deleted."""
    topic = ask.topic()
    ask(produce(topic, {0: batch("x")}))
    ask(describe_producers({topic.name: [0]}))
    ask(produce(topic, {0: batch("x", "y", producer_id=NOBODY, producer_epoch=2, base_sequence=0)}))
    ask(describe_producers({topic.name: [0]}))
    ask(produce(topic, {0: batch("x", producer_id=NOBODY, producer_epoch=3, base_sequence=0)}))
    ask(produce(topic, {0: batch("x", producer_id=NOBODY + 1, producer_epoch=0, base_sequence=7)}))
    ask(describe_producers({topic.name: [0]}))
    ask(delete_records(topic.name, {0: -1}))
    ask(describe_producers({topic.name: [0]}))


def markers_written_by_an_administrator(ask: Script) -> None:
    """A hanging transaction ends in its partition; the coordinator does not know."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    ask(write(producer, topic))
    ask(write(producer, topic, index=1))
    ask(write_markers(marker(producer, {topic.name: [0]}, commit=False, version=0)))
    ask(describe(producer))
    ask(describe_producers({topic.name: [0, 1]}))
    ask(read(topic, {0: 0, 1: 0}, isolation_level=1))
    ask(write(producer, topic, "late", sequence=1), note="after the marker")
    ask(write(producer, topic, "late", sequence=1, version=11), note="after the marker")
    ended(ask, producer, commit=True)
    ask(read(topic, {0: 0, 1: 0}, isolation_level=1))


def markers_of_many_kinds(ask: Script) -> None:
    """Epochs, coordinators' epochs, partitions that are not there, in both versions."""
    topic = ask.topic(partitions=2)
    old = new(ask)
    producer = again(ask, old)
    here = {topic.name: [0]}
    future = producer.with_epoch(7)
    for version in (1, 2):
        ask(write_markers(version=version), note="none")
        for note, one in {
            "no partitions": marker(producer, {}, commit=True),
            "an empty topic": marker(producer, {topic.name: []}, commit=True),
            "nowhere": marker(producer, {topic.name: [9, -1], "no-such-topic": [0]}, commit=True),
            "an internal topic": marker(producer, {"__transaction_state": [0]}, commit=True),
            "nothing open": marker(producer, here, commit=True),
            "an old epoch": marker(old, here, commit=False),
            "a future epoch": marker(future, here, commit=False),
            "the epoch before that": marker(producer.with_epoch(6), here, commit=False),
            "a coordinator of epoch 5": marker(
                producer.with_epoch(7), here, commit=True, coordinator_epoch=5
            ),
            "a coordinator of epoch 4": marker(
                producer.with_epoch(7), here, commit=True, coordinator_epoch=4
            ),
            "a coordinator of epoch -1": marker(future, here, commit=True, coordinator_epoch=-1),
            "nobody's": marker(Producer("", NOBODY, 3), here, commit=True),
            "of no epoch": marker(Producer("", NOBODY, -1), here, commit=True),
            "of no producer": marker(Producer("", -1, 0), here, commit=True),
        }.items():
            ask(write_markers(one, version=version), note=note)
            ask(describe_producers({topic.name: [0, 1]}), note=note)
    ask(read(topic, {0: 0}))


def markers_of_transactions_of_version_2(ask: Script) -> None:
    """They must have a later epoch than the records."""
    topic = ask.topic()
    producer = new(ask)
    for version in (0, 1, 2, 3):
        ask(write(producer, topic))
        for epoch in (producer.epoch - 1, producer.epoch, producer.epoch + 1):
            one = marker(producer.with_epoch(epoch), {topic.name: [0]}, commit=False, version=version)
            ask(write_markers(one), note=f"version {version}, epoch {epoch}")
            ask(describe_producers({topic.name: [0]}))
        producer = ended(ask, producer, commit=True)
        producer = again(ask, producer)
    ask(read(topic, {0: 0}))


def markers_written_twice(ask: Script) -> None:
    """Also of both outcomes, in one request."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    ask(write(producer, topic))
    aborted = marker(producer, {topic.name: [0, 1]}, commit=False)
    committed = marker(producer, {topic.name: [0, 1]}, commit=True)
    ask(write_markers(aborted, version=1))
    ask(write_markers(aborted, version=1), note="again")
    ask(write_markers(committed, version=1), note="the other way")
    ask(read(topic, {0: 0, 1: 0}, isolation_level=1))
    ask(describe(producer))


def markers_of_a_groups_offsets(ask: Script) -> None:
    """An administrator commits or aborts what is pending."""
    topic = ask.topic()
    producer = new(ask)
    for commit in (True, False):
        ask(txn_commit(producer, ask.group, {topic.name: {0: 7 if commit else 8}}))
        ask(fetch(ask.group, {topic.name: [0]}, require_stable=True))
        ask(write_markers(marker(producer, {GROUPS: [0]}, commit=commit)))
        ask(fetch(ask.group, {topic.name: [0]}, require_stable=True))
        ask(describe(producer))
    ask(end(producer, commit=True))
    complete(ask, producer)
    ask(fetch(ask.group, {topic.name: [0]}, require_stable=True))
    ask(write_markers(marker(producer, {GROUPS: [9]}, commit=True)))


def the_end_of_a_transaction_that_an_administrator_ended(ask: Script) -> None:
    """In the older protocol, too."""
    topic = ask.topic()
    producer = new(ask)
    ask(add(producer, {topic.name: [0]}))
    ask(add_offsets(producer, ask.group))
    ask(write(producer, topic, version=11))
    ask(write_markers(marker(producer, {topic.name: [0]}, commit=False), version=1))
    ask(write(producer, topic, version=11, sequence=1))
    ended(ask, producer, commit=True, version=3)
    ask(read(topic, {0: 0}))
    ask(read_committed(topic))

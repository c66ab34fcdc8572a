"""One member of a group, run as a process: `python member_program.py '{"library": "aiokafka", ...}'`.

Subscribes, reads, and commits after each batch. Says, one JSON object a line: assigned, revoked, records,
committed, commit-refused, failed, closed; with a cooperative assignor added and removed instead of the first
two. Closes properly on the line `close`, dies when its input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

asked: dict[str, Any] = json.loads(sys.argv[1])
closing = threading.Event()
POLL_S = 0.1


def say(event: str, **more: Any) -> None:
    """One line for whoever started this."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def await_the_end() -> None:
    """Sets `closing` on the line `close`; without a parent there is nothing to close for."""
    for line in sys.stdin:
        if line.strip() == "close":
            closing.set()
    if not closing.is_set():
        os._exit(1)


def confluent() -> None:
    """confluent-kafka, with its own background threads."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    config = {
        "bootstrap.servers": asked["bootstrap"],
        "client.id": "compat-confluent-kafka",
        "group.id": asked["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 1000,  # how soon a new topic is found by an expression
    }
    if asked["protocol"] == "consumer":
        config["group.protocol"] = "consumer"  # timeouts and assignors are the server's affair
    else:
        config["session.timeout.ms"] = asked["session_timeout_ms"]
        config["heartbeat.interval.ms"] = asked["heartbeat_ms"]
        config["partition.assignment.strategy"] = asked["assignor"]
    if asked["instance_id"]:
        config["group.instance.id"] = asked["instance_id"]
    consumer = Consumer(config)
    cooperative = asked["protocol"] == "consumer" or asked["assignor"] == "cooperative-sticky"
    consumer.subscribe(
        [asked["topic"]],
        on_assign=lambda _c, given: say(
            "added" if cooperative else "assigned", partitions=[p.partition for p in given]
        ),
        on_revoke=lambda _c, taken: say(
            "removed" if cooperative else "revoked", partitions=[p.partition for p in taken]
        ),
    )
    while not closing.is_set():
        # Any: the library's types say that even a record without an error may lack offset and value.
        batch: list[Any] = [m for m in consumer.consume(500, timeout=POLL_S) if m.error() is None]
        if not batch:
            continue
        say("records", records=[[m.partition(), m.offset(), m.value().decode()] for m in batch])
        upto: dict[int, int] = {m.partition(): m.offset() + 1 for m in batch}
        ends = {(m.topic(), m.partition()): m.offset() + 1 for m in batch}
        offsets = [TopicPartition(*where, offset) for where, offset in ends.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
            say("committed", offsets=upto)
        except KafkaException as error:
            say("commit-refused", error=str(error))
    consumer.close()


def kafka_python() -> None:
    """kafka-python: everything happens inside poll, but for the heartbeats."""
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", partitions=[p.partition for p in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked")

    consumer = KafkaConsumer(
        bootstrap_servers=asked["bootstrap"],
        client_id="compat-kafka-python",
        group_id=asked["group"],
        group_instance_id=asked["instance_id"],
        session_timeout_ms=asked["session_timeout_ms"],
        heartbeat_interval_ms=asked["heartbeat_ms"],
        partition_assignment_strategy=[RangePartitionAssignor],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=200,
    )
    consumer.subscribe([asked["topic"]], listener=Listener())
    # A leader that joins before it knows the topic joins again once it does, and that second join is lost
    # if a poll ends in the midst of it (FINDINGS.md): so the topic is known first.
    while not closing.is_set() and not consumer.partitions_for_topic(asked["topic"]):
        pass
    while not closing.is_set():
        batches = consumer.poll(timeout_ms=int(POLL_S * 1000))
        if not batches:
            continue
        records = [r for batch in batches.values() for r in batch]
        say("records", records=[[r.partition, r.offset, r.value.decode()] for r in records])
        upto = {where: OffsetAndMetadata(batch[-1].offset + 1, "", -1) for where, batch in batches.items()}
        try:
            consumer.commit(upto)
            say("committed", offsets={where.partition: one.offset for where, one in upto.items()})
        except KafkaError as error:
            say("commit-refused", error=repr(error))
    consumer.close()


async def aiokafka() -> None:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        async def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", partitions=[p.partition for p in assigned])

        async def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked")

    consumer = AIOKafkaConsumer(
        bootstrap_servers=asked["bootstrap"],
        client_id="compat-aiokafka",
        group_id=asked["group"],
        group_instance_id=asked["instance_id"],
        session_timeout_ms=asked["session_timeout_ms"],
        rebalance_timeout_ms=asked["session_timeout_ms"],
        heartbeat_interval_ms=asked["heartbeat_ms"],
        partition_assignment_strategy=(RangePartitionAssignor,),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=200,
        metadata_max_age_ms=5000,
    )
    consumer.subscribe([asked["topic"]], listener=Listener())
    await consumer.start()
    while not closing.is_set():
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        if not batches:
            continue
        records = [r for batch in batches.values() for r in batch]
        say("records", records=[[r.partition, r.offset, r.value.decode()] for r in records])
        upto = {where: batch[-1].offset + 1 for where, batch in batches.items()}
        try:
            await consumer.commit(upto)
            say("committed", offsets={where.partition: offset for where, offset in upto.items()})
        except KafkaError as error:
            say("commit-refused", error=repr(error))
    await consumer.stop()


def main() -> None:
    """Runs the library that was asked for."""
    threading.Thread(target=await_the_end, daemon=True).start()
    try:
        match asked["library"]:
            case "confluent-kafka":
                confluent()
            case "kafka-python":
                kafka_python()
            case "aiokafka":
                asyncio.run(aiokafka())
            case other:
                raise SystemExit(f"no member program for {other}")
    except Exception as error:
        say("failed", error=repr(error))
        raise
    say("closed")


if __name__ == "__main__":
    main()

"""`python -m bench.data`: produce or consume small records with confluent-kafka at full speed.

`python -m bench` runs it as a child process, so that each measurement has a fresh client. It prints one JSON
object: records, seconds, records_per_s. Producing ends when every record is acknowledged (acks=all);
consuming is timed from the first record that arrives to the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from bench.figures import MeasureFailed

RECORD_BYTES = 100
PARTITIONS = 4
GIVE_UP_AFTER_S = 120.0
TIMEOUT_S = 300.0


def run_data(
    what: str, bootstrap: str, topic: str, records: int, isolation_level: str = "read_committed"
) -> float:
    """Run this module in a process of its own; return records per second. Raises MeasureFailed."""
    command = [sys.executable, "-m", "bench.data", what, bootstrap, topic, str(records), isolation_level]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise MeasureFailed(f"{what} did not end within {TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise MeasureFailed(done.stderr.strip()[-500:] or f"{what} ended with status {done.returncode}")
    return float(json.loads(done.stdout)["records_per_s"])


def produce(
    bootstrap: str, topic: str, records: int, partitions: int = PARTITIONS, batch_records: int = 0
) -> dict[str, float]:
    """Produce `records` records to all partitions; wait while the client's queue is full.

    With `batch_records` each batch has so many, whatever the broker's speed; otherwise a batch is sent after
    5 ms, or as soon as an earlier one is acknowledged.
    """
    failures: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 5,
        "queue.buffering.max.messages": 200_000,
        "message.timeout.ms": 60_000,
    }
    if batch_records:
        config |= {"linger.ms": 1_000, "batch.num.messages": batch_records}
    producer = Producer(config)
    producer.list_topics(topic, timeout=10)
    value = bytes(RECORD_BYTES)
    begin = time.monotonic()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(GIVE_UP_AFTER_S)
    seconds = time.monotonic() - begin
    if left or failures:
        raise SystemExit(f"{left} records never acknowledged, {len(failures)} refused: {failures[:1]}")
    return {"records": records, "seconds": seconds, "records_per_s": records / seconds}


def consume(
    bootstrap: str, topic: str, records: int, isolation_level: str = "read_committed"
) -> dict[str, float]:
    """Consume `records` records from the start of all partitions."""
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench-consume",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation_level,
        # By default a client with a full queue waits a second before its next fetch, longer than the run.
        "fetch.queue.backoff.ms": 1,
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    seen, begin, deadline = 0, 0.0, time.monotonic() + GIVE_UP_AFTER_S
    while seen < records:
        batch = consumer.consume(10_000, timeout=1)
        if batch and not seen:
            begin = time.monotonic()
        for message in batch:
            if message.error() is not None:
                raise SystemExit(f"consuming failed: {message.error()}")
        seen += len(batch)
        if time.monotonic() > deadline:
            raise SystemExit(f"{seen} of {records} records came within {GIVE_UP_AFTER_S:.0f} s")
    seconds = time.monotonic() - begin
    consumer.close()
    return {"records": seen, "seconds": seconds, "records_per_s": seen / seconds}


def main() -> None:
    """Run the command line: produce|consume BOOTSTRAP TOPIC RECORDS [ISOLATION_LEVEL]."""
    parser = argparse.ArgumentParser(prog="python -m bench.data")
    parser.add_argument("what", choices=("produce", "consume"))
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("records", type=int)
    parser.add_argument("isolation_level", nargs="?", default="read_committed")
    given = parser.parse_args()
    place = (given.bootstrap, given.topic, given.records)
    done = produce(*place) if given.what == "produce" else consume(*place, given.isolation_level)
    json.dump(done, sys.stdout)


if __name__ == "__main__":
    main()

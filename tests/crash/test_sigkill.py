"""A server killed many times under the load of real clients.

The workload: an idempotent producer writes numbered letters, committers increase the offsets of their own
groups one by one, and a member of a live group reads the letters. The server is killed with SIGKILL at random
moments and started again on the same port. Afterwards:

* every acknowledged letter is there, and no letter is there twice;
* every group's committed offset was sent, and is never below the last acknowledged one;
* the live group has read everything and still has its member.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until

from headgate.broker import Broker, run

KILLS = 20
PARTITIONS = 3
COMMITTERS = 4
LONGEST_LIFE_SECONDS = 1.2
MOST_ON_THEIR_WAY = 5000
"""Limit of unacknowledged letters, so that the producer's queue never fills up."""
ENOUGH_WITHIN_SECONDS = 60
SEED = 20130101

SILENT = logging.getLogger("tests.crash.rdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


def quiet(broker: Broker, **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "logger": SILENT,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


class Letters(threading.Thread):
    """Produces numbered letters until stopped, and records which were acknowledged."""

    def __init__(self, broker: Broker, stop: threading.Event) -> None:
        super().__init__(name="letters")
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self._stop_asked = stop
        self._producer = Producer(
            quiet(broker, enable_idempotence=True, delivery_timeout_ms=120_000, linger_ms=1)
        )

    def run(self) -> None:
        while not self._stop_asked.is_set():
            self._producer.produce(
                "letters",
                str(self.sent).encode(),
                on_delivery=self._on_delivery,
                partition=self.sent % PARTITIONS,
            )
            self.sent += 1
            self._producer.poll(0)
            if self.sent % 20 == 0:
                time.sleep(0.005)
            while len(self._producer) > MOST_ON_THEIR_WAY and not self._stop_asked.is_set():
                self._producer.poll(0.05)
        self._producer.flush(120)

    def _on_delivery(self, error: object, message: object) -> None:
        value = int(message.value())  # type: ignore[attr-defined]
        if error is None:
            self.acknowledged.add(value)
        else:
            self.failed.append(f"{value}: {error}")


class Committer(threading.Thread):
    """Increases the offset of its own group by one, repeatedly, and sometimes checks the committed offset."""

    def __init__(self, broker: Broker, name: str, stop: threading.Event) -> None:
        super().__init__(name=name)
        self.group = name
        self.sent = 0
        self.acknowledged = 0
        self.wrong: list[str] = []
        self._stop_asked = stop
        self._consumer = Consumer(
            quiet(broker, group_id=name, enable_auto_commit=False, socket_timeout_ms=2000)
        )

    def run(self) -> None:
        while not self._stop_asked.is_set():
            self.sent += 1
            try:
                self._consumer.commit(offsets=[TopicPartition("letters", 0, self.sent)], asynchronous=False)
                self.acknowledged = self.sent
                if self.sent % 10 == 0:
                    self.check()
            except KafkaException:
                time.sleep(0.01)
        try:
            wait_until(self._is_checked, f"the offset of {self.group} is told", ENOUGH_WITHIN_SECONDS)
        finally:
            self._consumer.close()

    def _is_checked(self) -> bool:
        try:
            self.check(timeout_s=10)
        except KafkaException:
            return False
        return True

    def check(self, timeout_s: float = 2) -> None:
        """Check that the committed offset is between the last acknowledged and the last sent one."""
        committed = self._consumer.committed([TopicPartition("letters", 0)], timeout=timeout_s)[0].offset
        if not self.acknowledged <= max(committed, 0) <= self.sent:
            self.wrong.append(f"{self.group}: {committed} not in {self.acknowledged}..{self.sent}")


class Reader(threading.Thread):
    """A member of a live group: reads letters and commits."""

    def __init__(self, broker: Broker, stop: threading.Event) -> None:
        super().__init__(name="reader")
        self.seen: Counter[int] = Counter()
        self._stop_asked = stop
        self.consumer = Consumer(
            quiet(
                broker,
                group_id="readers",
                auto_offset_reset="earliest",
                auto_commit_interval_ms=100,
                session_timeout_ms=6000,
                heartbeat_interval_ms=500,
            )
        )
        self.consumer.subscribe(["letters"])

    def run(self) -> None:
        while not self._stop_asked.is_set():
            message = self.consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.seen[int(message.value() or b"")] += 1


def read_everything(broker: Broker, count: int) -> Counter[int]:
    """Return every letter in the log with its number of occurrences."""
    found: Counter[int] = Counter()
    consumer = Consumer(quiet(broker, group_id="auditor", enable_auto_commit=False))
    consumer.assign([TopicPartition("letters", partition, 0) for partition in range(PARTITIONS)])
    ends = {
        partition: consumer.get_watermark_offsets(TopicPartition("letters", partition), timeout=10)[1]
        for partition in range(PARTITIONS)
    }
    assert sum(ends.values()) >= count
    deadline = time.monotonic() + 60
    while sum(found.values()) < sum(ends.values()) and time.monotonic() < deadline:
        for message in consumer.consume(5000, timeout=1):
            assert message.error() is None
            found[int(message.value() or b"")] += 1
    consumer.close()
    return found


def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    """Twenty kills at random moments lose no acknowledged letter, no commit, and no group."""
    chance = random.Random(SEED)
    stop_work, stop_reading = threading.Event(), threading.Event()
    with run({"headgate.checkpoint.interval.records": "20"}, data_dir=tmp_path / "data") as broker:
        admin = AdminClient(quiet(broker))
        for future in admin.create_topics([NewTopic("letters", PARTITIONS, 1)]).values():
            future.result(timeout=30)
        letters = Letters(broker, stop_work)
        committers = [Committer(broker, f"committer-{index}", stop_work) for index in range(COMMITTERS)]
        reader = Reader(broker, stop_reading)
        for thread in (letters, reader, *committers):
            thread.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.05, LONGEST_LIFE_SECONDS))
            broker.kill()
            broker.start()
        time.sleep(1)
        wait_until(
            lambda: all(one.acknowledged > KILLS for one in committers),
            lambda: f"more commits than kills: {[one.acknowledged for one in committers]}",
            ENOUGH_WITHIN_SECONDS,
        )
        stop_work.set()
        for thread in (letters, *committers):
            thread.join(timeout=150)

        found = read_everything(broker, len(letters.acknowledged))
        assert not letters.failed
        assert letters.acknowledged <= set(found)
        assert [letter for letter, times in found.items() if times > 1] == []
        assert set(found) <= set(range(letters.sent))
        assert [line for committer in committers for line in committer.wrong] == []
        assert all(committer.acknowledged > KILLS for committer in committers)

        wait_until(
            lambda: set(reader.seen) == set(found),
            lambda: f"all read, but for {set(found) ^ set(reader.seen)}",
            ENOUGH_WITHIN_SECONDS,
        )
        assert set(reader.seen) == set(found)
        group = admin.describe_consumer_groups(["readers"])["readers"].result(timeout=30)
        assert len(group.members) == 1
        wait_until(
            lambda: "a checkpoint was written" in broker.log_path.read_text(),
            "a checkpoint",
            ENOUGH_WITHIN_SECONDS,
        )
        said = broker.log_path.read_text()
        assert "a checkpoint was written" in said
        assert "a checkpoint cannot be used" not in said
        stop_reading.set()
        reader.join(timeout=30)
        reader.consumer.close()

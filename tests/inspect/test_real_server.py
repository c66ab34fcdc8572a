"""Directories of a real server: running, killed under load, started again, closed."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until

from headgate.broker import Broker, run
from headgate.inspect.findings import Finding, Severity
from headgate.inspect.verify import verify

SILENT = logging.getLogger("tests.inspect.rdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "log.segment.bytes": "3000",
    "offsets.topic.segment.bytes": "3000",
    "log.retention.check.interval.ms": "200",
}
KILLS = 3
ENOUGH_S = 30.0


class Load(threading.Thread):
    """Produces to two topics and commits offsets, also while the server is killed and restarted."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(name="load")
        common = {"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.max.ms": 100}
        self._producer = Producer(
            {**common, "enable.idempotence": True, "compression.type": "zstd", "linger.ms": 1}, logger=SILENT
        )
        self._consumer = Consumer(
            {**common, "group.id": "load", "enable.auto.commit": False, "socket.timeout.ms": 1000},
            logger=SILENT,
        )
        self.stop = threading.Event()
        self.rounds = 0

    def has_reached(self, rounds: int) -> bool:
        return self.rounds >= rounds

    def run(self) -> None:
        while not self.stop.is_set():
            for number in range(40):
                self._producer.produce("kept", b"%d" % number * 20, key=b"%d" % number, partition=number % 2)
                self._producer.produce("short", b"%d" % number * 20)
            self._producer.poll(0.01)
            try:
                wanted = [TopicPartition("kept", partition, self.rounds) for partition in range(2)]
                self._consumer.commit(offsets=wanted, asynchronous=False)
                self.rounds += 1
            except KafkaException:
                time.sleep(0.01)
        self._producer.flush(30)
        self._consumer.close()


def check(data_dir: Path) -> list[Finding]:
    """Check a directory, fail on errors, and return the notes."""
    listed = verify(data_dir).findings.listed
    assert [found for found in listed if found.severity is Severity.ERROR] == []
    return listed


def first_offset(directory: Path) -> int:
    """Return the first offset of the first segment; 0 while there is none."""
    return min((int(path.stem) for path in directory.glob("*.log")), default=0)


def segments(directory: Path) -> int:
    return len(list(directory.glob("*.log")))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_neither_a_kill_nor_a_stop_of_a_server_causes_errors(data_dir: Path) -> None:
    """The server is killed three times under load, checked while it runs, and stopped at the end."""
    with run(SETTINGS, data_dir=data_dir) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers}, logger=SILENT)
        topics = [
            NewTopic("kept", 2, 1),
            NewTopic("short", 1, 1, config={"retention.bytes": "6000"}),
            NewTopic("gone", 1, 1),
        ]
        for future in admin.create_topics(topics).values():
            future.result(timeout=30)
        admin.delete_topics(["gone"])["gone"].result(timeout=30)
        load = Load(broker)
        load.start()
        for _ in range(KILLS):
            wait_until(partial(load.has_reached, load.rounds + 10), "ten more rounds", ENOUGH_S)
            assert any("a server is running" in note.what for note in check(data_dir))
            broker.kill()
            assert any(note.file == "clean-shutdown" for note in check(data_dir))
            broker.start()
        wait_until(lambda: first_offset(data_dir / "short-0") > 0, "a segment is deleted", ENOUGH_S)
        wait_until(lambda: segments(data_dir / "kept-0") > 1, "a second segment", ENOUGH_S)
        load.stop.set()
        load.join(timeout=60)
        assert load.rounds > KILLS
        check(data_dir)
    assert check(data_dir) == []
    assert segments(data_dir / "kept-0") > 1
    assert first_offset(data_dir / "short-0") > 0
    assert (data_dir / "kept-0" / "leader-epoch-checkpoint").exists()

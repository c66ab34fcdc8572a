"""Kafka Streams counts words with exactly_once_v2, while application and broker are killed and restored."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.support.java import java_command_of, needs_java_member
from tests.compat.support.transformers import Talker
from tests.waiting import wait_until

import headgate.broker as headgate
from headgate.broker import Broker

PARTITIONS = 2
WORDS = ["air", "berlin", "dublin", "echo", "foxtrot", "golf", "hotel", "india"]
SEED = 17
SOME = 300
PATIENCE_S = 60.0

pytestmark = needs_java_member


class Author:
    """Writes lines of words until it is told to stop, and counts the words."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._is_over = threading.Event()
        self.words: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        chance = random.Random(SEED)
        while not self._is_over.is_set():
            line = chance.choices(WORDS, k=5)
            self.words.update(line)
            self._producer.produce(
                self._topic, " ".join(line).encode(), partition=chance.randrange(PARTITIONS)
            )
            self._producer.poll(0)
            self._is_over.wait(0.005)

    def stop(self) -> None:
        """End it; afterwards every line is in the log."""
        self._is_over.set()
        self._thread.join(10)
        assert self._producer.flush(30) == 0


class Counts:
    """What a reader of committed records finds in the topic of counts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.by_word: dict[str, list[int]] = defaultdict(list)
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings | {"log_level": 0})
        self._consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])

    def total(self) -> int:
        """Read what has come; the number of counts."""
        for message in self._consumer.consume(10_000, 0.2):
            if message.error() is None:
                self.by_word[(message.key() or b"").decode()].append(int(message.value() or b"0"))
        return sum(map(len, self.by_word.values()))

    def close(self) -> None:
        self._consumer.close()


def count_words(broker: Broker, name: str, directory: Path) -> Talker:
    """Start the application."""
    asked = {
        "application": name,
        "bootstrap": broker.bootstrap_servers,
        "source": f"{name}-lines",
        "target": f"{name}-counts",
        "directory": str(directory),
    }
    return Talker(java_command_of("WordCount", json.dumps(asked)))


def go_on(counts: Counts, application: Talker) -> None:
    """Let it count some words more."""
    goal = counts.total() + SOME
    wait_until(lambda: counts.total() >= goal, application.trouble, PATIENCE_S)


@pytest.mark.timeout(3 * PATIENCE_S)
def test_word_count_is_exact_though_it_is_killed(name: str, tmp_path: Path) -> None:
    """Each word is counted 1, 2, 3 ... in order, and the last count is the number of words written."""
    with headgate.run({"group.min.session.timeout.ms": "1000"}) as broker:
        bootstrap = broker.bootstrap_servers
        topics = [NewTopic(f"{name}-{one}", PARTITIONS, 1) for one in ("lines", "counts")]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for created in admin.create_topics(topics).values():
            created.result(20)
        author, counts = Author(bootstrap, f"{name}-lines"), Counts(bootstrap, f"{name}-counts")
        # The first application loses its state directory, the second one leaves it to the third.
        for directory in ("lost", "kept"):
            with count_words(broker, name, tmp_path / directory) as application:
                go_on(counts, application)
        with count_words(broker, name, tmp_path / "kept") as application:
            go_on(counts, application)
            broker.kill()
            broker.start()
            go_on(counts, application)
            author.stop()
            written = author.words.total()
            wait_until(lambda: counts.total() >= written, application.trouble, PATIENCE_S)
            assert not application.said("failed")
        assert counts.total() == written
        counts.close()
    assert counts.by_word == {word: [*range(1, count + 1)] for word, count in author.words.items()}

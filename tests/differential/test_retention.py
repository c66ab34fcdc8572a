"""The experiment on the retention of offsets (KIP-211), end to end, beside Apache Kafka.

Both brokers live the same minutes, with a retention of one minute. What is measured is for how long
an offset was there after the event from which its retention counts:

    classic       a member polls for longer than the retention, then leaves   its leaving
    consumer      the same with the consumer protocol (KIP-848)               its leaving
    standalone    a commit of a group that never has members                  the commit
    old client    a commit with a retention of its own (OffsetCommit 4)       the commit, and 20 s
    while down    a member leaves, and the broker is down for 15 s after it   its leaving

Kafka removes the offsets of the consumer group at once, because it counts from the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bench.kafka.broker import BRIEF_JVM, kafka_missing, kafka_node, with_class_archive
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.differential.requests import commit
from tests.differential.wire import Connection

import headgate

pytestmark = [
    pytest.mark.skipif(kafka_missing() is not None, reason=kafka_missing() or ""),
    pytest.mark.timeout(500),
]

RETENTION_S = 60.0
OWN_RETENTION_S = 20.0
ALIVE_S = 75.0
"""How long the members poll: longer than the retention."""
DOWN_S = 15.0
SWEEP_S = 1.0
LATE_S = 8.0
"""A sweep, a poll of this test, and a busy machine."""
SETTINGS = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
}
TOPIC = "t"
Start = Callable[[], str]
"""Starts the broker, or starts it again, and returns its address."""


@dataclass
class Experiment:
    """One broker's life: when the retention of each group began to count, and when its offset was gone."""

    restart: Start
    began: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    """When the offset was last there."""

    def run(self) -> dict[str, float]:
        """Live the life; return for how many seconds each offset was kept."""
        servers = self.restart()
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        self._leave(self._member(servers, "while down"), "while down")
        servers = self.restart()
        members = [self._member(servers, "classic"), self._member(servers, "consumer", "consumer")]
        self._commit_alone(servers)
        self._watch(servers, members)
        return {group: self.gone[group] - began for group, began in self.began.items()}

    def _member(self, servers: str, group: str, protocol: str = "classic") -> Consumer:
        """A member that has its partition and has committed once."""
        settings = {"group.protocol": protocol, "group.id": group, "enable.auto.commit": False}
        member = Consumer({"bootstrap.servers": servers, "log_level": 0, **settings})
        member.subscribe([TOPIC])
        deadline = time.monotonic() + 60
        while not member.assignment() and time.monotonic() < deadline:
            member.poll(0.2)
        member.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        return member

    def _leave(self, member: Consumer, group: str) -> None:
        member.close()
        self.began[group] = time.monotonic()

    def _commit_alone(self, servers: str) -> None:
        alone = Consumer({"bootstrap.servers": servers, "group.id": "standalone"})
        alone.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        alone.close()
        self.began["standalone"] = time.monotonic()
        host, _, port = servers.rpartition(":")
        connection = Connection(host, int(port))
        old = commit("old client", {TOPIC: {0: 1}}, version=4, retention_time=int(OWN_RETENTION_S * 1000))
        connection.send(old)
        answer = connection.receive(old)
        connection.close()
        assert answer["topics"][0]["partitions"][0]["error_code"] == "none", answer
        self.began["old client"] = time.monotonic()

    def _watch(self, servers: str, members: list[Consumer]) -> None:
        """Poll until the offsets of all groups are gone; let the members leave when their time has come."""
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        groups = ["classic", "consumer", "standalone", "old client", "while down"]
        start = time.monotonic()
        while len(self.gone) < len(groups) and time.monotonic() < start + ALIVE_S + RETENTION_S + 60:
            if members and time.monotonic() > start + ALIVE_S:
                for member, group in zip(members, ("classic", "consumer"), strict=True):
                    self._leave(member, group)
                members.clear()
            for member in members:
                member.poll(0.05)
            for group in groups:
                if group not in self.gone and not _has_offset(admin, group):
                    self.gone[group] = time.monotonic()
            time.sleep(0.2)


def _has_offset(admin: AdminClient, group: str) -> bool:
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 0)])]
    (found,) = admin.list_consumer_group_offsets(asked).values()
    return bool(found.result(20).topic_partitions[0].offset >= 0)


@contextmanager
def kafka(home: Path) -> Iterator[Start]:
    """Apache Kafka, which is down for a while between its starts."""
    home.mkdir()
    with ExitStack() as running:

        def restart() -> str:
            if (home / "data").exists():
                running.close()
                time.sleep(DOWN_S)
            jvm = with_class_archive(BRIEF_JVM)
            return running.enter_context(kafka_node(home=home, settings=SETTINGS, jvm=jvm)).bootstrap

        yield restart


@contextmanager
def ours(home: Path) -> Iterator[Start]:
    """Headgate, the same way."""
    with headgate.run(SETTINGS, data_dir=home / "data") as broker:
        starts = 0

        def restart() -> str:
            nonlocal starts
            starts += 1
            if starts > 1:
                broker.stop()
                time.sleep(DOWN_S)
                broker.start()
            return broker.bootstrap_servers

        yield restart


def test_offsets_are_kept_for_their_retention(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """By both brokers alike, except for groups of the consumer protocol."""
    with ThreadPoolExecutor(2) as threads, kafka(tmp_path / "kafka") as start_kafka, ours(tmp_path) as start:
        theirs, own = (threads.submit(Experiment(one).run) for one in (start_kafka, start))
        kept = {"Apache Kafka": theirs.result(), "Headgate": own.result()}
    for name, found in kept.items():
        print(f"{name:12}  " + "  ".join(f"{group} {seconds:.1f} s" for group, seconds in found.items()))
        record_property(name, found)
    expected = dict.fromkeys(kept["Headgate"], RETENTION_S) | {"old client": OWN_RETENTION_S}
    for name, found in kept.items():
        for group, seconds in found.items():
            if name == "Apache Kafka" and group == "consumer":
                assert seconds < RETENTION_S / 2, "Kafka has changed: tell it in docs/consumer-groups.md"
            else:
                assert expected[group] - SWEEP_S <= seconds <= expected[group] + LATE_S, (name, found)

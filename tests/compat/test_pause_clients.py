"""Stock clients beside a pause: an owner that never revokes, late commits, admin clients, Kafka's tool."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Message
from confluent_kafka import TopicPartition as TheirPartition
from confluent_kafka.admin import AdminClient
from tests.compat.support.kafkas_tools import CONSUMER_GROUPS, needs_kafkas_tools, run_tool
from tests.compat.support.writing import ALL, PARTITIONS, Writing
from tests.waiting import wait_until

from headgate.admin import Admin, TopicPartition
from headgate.broker import Broker
from headgate.client.errors import PartlyRefused
from headgate.client.offsets import Committer, commit_offsets
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

REBALANCE_TIMEOUT_S = 6.0
RELEASE_S = 40.0
HEARTBEAT_S = 0.3
MARGIN_S = 3.0
"""Allowed to a loaded machine; the measurement is in bench."""


@pytest.fixture
def admin(broker: Broker, name: str) -> Iterator[Admin]:
    """An admin of ours, and a topic."""
    with Admin(broker.bootstrap_servers, timeout_s=20) as admin:
        topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
        admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        yield admin


class Reader(threading.Thread):
    """A consumer of librdkafka in a thread of this process; it commits what it reads."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        super().__init__()
        self.partitions: set[int] = set()
        self.delays: list[tuple[float, int, float]] = []
        """For each record: when it was written, its partition, and how long it took to arrive."""
        self.is_revoking, self.may_revoke = threading.Event(), threading.Event()
        self.may_revoke.set()
        self.last_commit: str | None = None
        """The result of the commit in a revocation that took too long."""
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "max.poll.interval.ms": int(1000 * REBALANCE_TIMEOUT_S),
            }
        )
        self._consumer.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._note(message)
                self._consumer.commit(message=message, asynchronous=True)
        self._consumer.close()

    def end(self) -> None:
        """Leave the group."""
        self.may_revoke.set()
        self._ended.set()
        self.join()

    def slowest(self, since: float, until: float, partitions: set[int]) -> float:
        """The longest delay of the records of partitions written in a time."""
        found = [seconds for at, one, seconds in self.delays if since <= at < until and one in partitions]
        return max(found, default=0.0)

    def _note(self, message: Message) -> None:
        _, milliseconds = message.timestamp()
        partition = message.partition()
        assert partition is not None
        self.delays.append((milliseconds / 1000, partition, time.time() - milliseconds / 1000))

    def _on_assign(self, consumer: Consumer, partitions: list[TheirPartition]) -> None:
        self.partitions |= {one.partition for one in partitions}

    def _on_lost(self, consumer: Consumer, partitions: list[TheirPartition]) -> None:
        self.partitions -= {one.partition for one in partitions}

    def _on_revoke(self, consumer: Consumer, partitions: list[TheirPartition]) -> None:
        self.is_revoking.set()
        if not self.may_revoke.is_set():
            self.may_revoke.wait(RELEASE_S)
            late = [TheirPartition(one.topic, one.partition, 99) for one in partitions]
            try:
                consumer.commit(offsets=late, asynchronous=False)
                self.last_commit = "accepted"
            except KafkaException as refused:
                self.last_commit = refused.args[0].name()
        self.partitions -= {one.partition for one in partitions}


@contextmanager
def reading(broker: Broker, topic: str, group: str) -> Iterator[Reader]:
    """A member for the block."""
    reader = Reader(broker, topic, group)
    reader.start()
    try:
        yield reader
    finally:
        reader.end()


def wait_until_all_is_had(*readers: Reader, without: Set[int] = frozenset()) -> None:
    """Returns when each partition has one owner."""
    wanted = sorted(set(ALL) - without)
    wait_until(
        lambda: (
            sorted(one for reader in readers for one in reader.partitions) == wanted
            and all(reader.partitions for reader in readers)
        ),
        lambda: f"{wanted} are shared: {[reader.partitions for reader in readers]}",
        30,
    )


def alter_as_they_do(client: AdminClient, held: list[TopicPartition], group: str, offset: int) -> set[str]:
    """Sets offsets with confluent-kafka; the errors of the partitions."""
    partitions = [TheirPartition(where.topic, where.partition, offset) for where in held]
    asked = [ConsumerGroupTopicPartitions(group, partitions)]
    altered = client.alter_consumer_group_offsets(asked, request_timeout=20)[group].result()
    return {"" if one.error is None else one.error.name() for one in altered.topic_partitions}


def test_an_owner_that_never_revokes_is_fenced_and_its_late_commit_refused(
    broker: Broker, admin: Admin, name: str
) -> None:
    """The pause is complete after its rebalance timeout; until then confluent-kafka cannot set the offset."""
    held = [TopicPartition(TopicName(name), 0)]
    theirs = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    with reading(broker, name, name) as stuck:
        wait_until_all_is_had(stuck)
        stuck.may_revoke.clear()
        asked_at = time.monotonic()
        admin.pause_partitions(name, held)
        assert stuck.is_revoking.wait(RELEASE_S)
        assert alter_as_they_do(theirs, held, name, 5) == {"REBALANCE_IN_PROGRESS"}
        admin.wait_until_paused(name, held, RELEASE_S)
        assert time.monotonic() - asked_at >= REBALANCE_TIMEOUT_S
        assert alter_as_they_do(theirs, held, name, 5) == {""}
        stuck.may_revoke.set()
        wait_until_all_is_had(stuck, without={0})
        assert stuck.last_commit == "UNKNOWN_MEMBER_ID"
        assert admin.committed_offsets(name)[held[0]].offset == 5
        admin.resume_partitions(name, held)
        wait_until_all_is_had(stuck)


@needs_kafkas_tools
def test_others_read_on_without_delay_while_partitions_are_paused(
    broker: Broker, admin: Admin, name: str
) -> None:
    """As fast as a group without pauses beside it; a member that joins gets only others, and late commits of
    living members are refused. Kafka's tool shows the offset that confluent-kafka has set."""
    with ExitStack() as stack:
        one, two, control = (
            stack.enter_context(reading(broker, name, group)) for group in (name, name, f"{name}-control")
        )
        wait_until_all_is_had(one, two)
        wait_until_all_is_had(control)
        paused = {min(one.partitions), min(two.partitions)}
        others = set(ALL) - paused
        held = [TopicPartition(TopicName(name), partition) for partition in sorted(paused)]
        with Writing(broker, name):
            since = time.time()
            admin.pause_partitions(name, held, reason="measured")
            admin.wait_until_paused(name, held, RELEASE_S)
            time.sleep(2 * HEARTBEAT_S)
            until = time.time()
            members = [row.owner for row in admin.list_paused_partitions(name).values()]
            assert members == [None, None]
            theirs = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            assert alter_as_they_do(theirs, held, name, 7) == {""}
            three = stack.enter_context(reading(broker, name, name))
            wait_until_all_is_had(one, two, three, without=paused)
            for member in theirs.describe_consumer_groups([name])[name].result(20).members:
                with pytest.raises(PartlyRefused, match="STALE_MEMBER_EPOCH"):
                    late = Committer(member.member_id, 1)
                    commit_offsets(admin.cluster, GroupId(name), dict.fromkeys(held, 99), committer=late)
        shown = run_tool(broker.bootstrap_servers, CONSUMER_GROUPS, "--describe", "--group", name)
        rows = {int(row[2]): row for row in map(str.split, shown.splitlines()) if row[:1] == [name]}
        assert {number: (rows[number][3], rows[number][6]) for number in paused} == dict.fromkeys(
            paused, ("7", "-")
        )
        assert all(rows[number][6] != "-" for number in others)
        admin.resume_partitions(name, held)
        wait_until_all_is_had(one, two, three)
    usual = control.slowest(since, until, others)
    slowest = max(reader.slowest(since, until, others) for reader in (one, two))
    assert 0 < slowest <= usual + HEARTBEAT_S + MARGIN_S, f"the control group's slowest took {usual} s"

"""Java's consumer in groups of both protocols: members that come, go, are killed; Kafka's tool looks on."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from bench.kafka.broker import java_command
from tests.compat.support.driver import Committed, Sent, wait_until
from tests.compat.support.java import java_member_missing
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.members import Member, Membership, wait_until_shared

import headgate
from headgate.broker import Broker

pytestmark = [
    pytest.mark.skipif(java_member_missing() is not None, reason=java_member_missing() or ""),
    pytest.mark.timeout(180),
]

PARTITIONS = 6
ALL = list(range(PARTITIONS))
JVM_START_S = 40.0
SETTINGS = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
}

JoinJava = Callable[..., Member]
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of this file's own, whose groups are quick."""
    with headgate.run(SETTINGS) as broker:
        yield broker


@pytest.fixture
def setter(broker: Broker) -> Iterator[KafkaPython]:
    """What sets the scene."""
    with closing(KafkaPython(broker.bootstrap_servers)) as driver:
        yield driver


@pytest.fixture
def join(broker: Broker) -> Iterator[JoinJava]:
    """Starts Java members; whatever is left of them at the end of the test is killed."""
    members: list[Member] = []

    def join(topic: str, group: str, protocol: str, instance_id: str | None = None) -> Member:
        membership = Membership(
            library="java",
            bootstrap=broker.bootstrap_servers,
            topic=topic,
            group=group,
            protocol=protocol,
            instance_id=instance_id,
        )
        members.append(Member(membership))
        return members[-1]

    yield join
    for member in members:
        member.end()


@pytest.fixture
def tool(broker: Broker) -> Tool:
    """Runs kafka-consumer-groups; what it printed, and what it complained of."""
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

    def run(*arguments: str) -> str:
        done = subprocess.run(
            java_command(command, "--bootstrap-server", broker.bootstrap_servers, *arguments),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr

    return run


class Writing:
    """Records that are written all the time, in a thread, until the block is left."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.values: list[str] = []
        self._broker, self._topic = broker, topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _write(self) -> None:
        with closing(KafkaPython(self._broker.bootstrap_servers)) as driver:
            while not self._ended.wait(0.1):
                values = [f"{len(self.values) + number:06}" for number in range(2 * PARTITIONS)]
                sent = [Sent(value=v, partition=i % PARTITIONS) for i, v in enumerate(values)]
                driver.produce(self._topic, sent)
                self.values += values


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_record_counts_once_while_members_come_go_and_are_killed(
    broker: Broker, setter: KafkaPython, join: JoinJava, name: str, protocol: str
) -> None:
    """By what members committed: nothing twice, nothing left out, whoever had the partition."""
    setter.create_topic(name, PARTITIONS)
    with Writing(broker, name) as writing:
        first, second = join(name, name, protocol), join(name, name, protocol)
        wait_until_shared([first, second], PARTITIONS, JVM_START_S)
        third = join(name, name, protocol)
        wait_until_shared([first, second, third], PARTITIONS, JVM_START_S)
        first.leave()
        wait_until_shared([second, third], PARTITIONS)
        second.kill()
        third.wait_until_it_owns(ALL, timeout_s=30)
    everything = dict.fromkeys(ALL, Committed(len(writing.values) // PARTITIONS))
    wait_until(
        lambda: setter.committed(name, name, ALL) == everything, "all that was written is committed", 20
    )
    confirmed = [value for member in (first, second, third) for value in member.confirmed]
    # What was under way when the second one died was committed, or read again by who came after.
    unheard = set(second.unconfirmed) - set(confirmed)
    assert sorted([*confirmed, *unheard]) == writing.values
    assert first.confirmed
    assert second.confirmed
    assert third.confirmed
    third.leave()


def test_a_static_java_member_restarts_without_a_rebalance(
    setter: KafkaPython, join: JoinJava, name: str
) -> None:
    """It has its partitions when it is back, and the other one notices nothing."""
    setter.create_topic(name, PARTITIONS)
    restarted = join(name, name, "consumer", "the-one-that-restarts")
    witness = join(name, name, "consumer", "the-one-that-stays")
    wait_until_shared([restarted, witness], PARTITIONS, JVM_START_S)
    owned, noticed = restarted.partitions, (witness.rebalances, witness.revocations)
    restarted.leave()
    returned = join(name, name, "consumer", "the-one-that-restarts")
    returned.wait_until_it_owns(owned, JVM_START_S)
    assert (witness.rebalances, witness.revocations) == noticed


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_sees_a_live_group_and_ends_an_empty_one(
    setter: KafkaPython, join: JoinJava, tool: Tool, name: str, protocol: str
) -> None:
    """List, describe in every way, refuse to reset while somebody reads; then reset and delete."""
    setter.create_topic(name, PARTITIONS)
    setter.produce(name, [Sent(value=str(number), partition=number % PARTITIONS) for number in range(60)])
    member = join(name, name, protocol)
    wait_until(lambda: sum(member.committed.values()) == 60, lambda: f"{member} reads all", JVM_START_S)
    group = ("--group", name)

    listed = [line.split() for line in tool("--list", "--type", "--state").splitlines()]
    assert [name, protocol.title(), "Stable"] in listed
    offsets = [line.split() for line in tool("--describe", *group, "--offsets").splitlines() if name in line]
    assert sorted(row[:6] for row in offsets) == [[name, name, str(p), "10", "10", "0"] for p in ALL]
    state = tool("--describe", *group, "--state", "--verbose")
    assert "Stable" in state
    assert ("range" if protocol == "classic" else "uniform") in state
    members = tool("--describe", *group, "--members", "--verbose")
    assert "compat-java" in members
    assert f"{name}:0,1,2,3,4,5" in members
    reset = (*group, "--topic", name, "--reset-offsets", "--to-earliest", "--execute")
    assert "Assignments can only be reset if the group" in tool(*reset)
    assert "The group is not empty" in tool("--delete", *group)

    member.leave()
    wait_until(lambda: "Empty" in tool("--describe", *group, "--state"), "nobody is left", 20)
    tool(*reset)
    assert setter.committed(name, name, ALL) == dict.fromkeys(ALL, Committed(0))
    tool("--delete-offsets", *group, "--topic", f"{name}:5")
    assert setter.committed(name, name, [4, 5]) == {4: Committed(0), 5: None}
    assert "successful" in tool("--delete", *group)
    assert name not in setter.groups()

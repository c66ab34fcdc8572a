"""librdkafka and Java in groups of both protocols: members come, go and are killed, the broker is killed.

The same promises for all four. What counts is what members have committed: every record once. Kafka's own
tool looks on.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from bench.kafka.broker import java_command, kafka_missing
from tests.compat.support.driver import Committed, Sent
from tests.compat.support.java import java_member_missing
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.members import Member, Membership, wait_until_shared
from tests.compat.support.writing import (
    ALL,
    PARTITIONS,
    SESSION_AND_MORE_S,
    Writing,
    check_that_every_record_counts_once,
    wait_until_they_read_on,
)
from tests.waiting import wait_until

import headgate
from headgate.broker import Broker

START_S = 40.0
"""What a JVM may need to start and join."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
}

pytestmark = pytest.mark.timeout(180)

needs_java_member = pytest.mark.skipif(java_member_missing() is not None, reason=java_member_missing() or "")
needs_kafkas_tools = pytest.mark.skipif(kafka_missing() is not None, reason=kafka_missing() or "")
every_kind = pytest.mark.parametrize(
    ("library", "protocol"),
    [
        ("confluent-kafka", "classic"),
        ("confluent-kafka", "consumer"),
        pytest.param("java", "classic", marks=needs_java_member),
        pytest.param("java", "consumer", marks=needs_java_member),
    ],
)

JoinKind = Callable[..., Member]
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
def join(broker: Broker, library: str, protocol: str) -> Iterator[JoinKind]:
    """Starts members of the kind the test is about; whatever is left of them in the end is killed."""
    members: list[Member] = []

    def join(topic: str, group: str, instance_id: str | None = None) -> Member:
        membership = Membership(
            library=library,
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


@every_kind
def test_every_record_counts_once_while_members_come_go_and_are_killed(
    broker: Broker, setter: KafkaPython, join: JoinKind, name: str
) -> None:
    """Two share, a third joins, one leaves, one is killed: the last has it all, and nothing is lost."""
    setter.create_topic(name, PARTITIONS)
    with Writing(broker, name) as writing:
        first, second = join(name, name), join(name, name)
        wait_until_shared([first, second], PARTITIONS, START_S)
        third = join(name, name)
        wait_until_shared([first, second, third], PARTITIONS, START_S)
        wait_until_they_read_on(first, second, third)
        first.leave()
        wait_until_shared([second, third], PARTITIONS)
        wait_until_they_read_on(second, third)
        second.kill()
        third.wait_until_it_owns(ALL, SESSION_AND_MORE_S)
        wait_until_they_read_on(third)
    check_that_every_record_counts_once(broker, name, writing, alive=[third], gone=[first, second])


@every_kind
def test_every_record_counts_once_when_the_broker_is_killed_and_a_member_with_it(
    broker: Broker, join: JoinKind, name: str
) -> None:
    """First the broker alone, then broker and member at once; the two that are left read on."""
    with closing(KafkaPython(broker.bootstrap_servers)) as setter:
        setter.create_topic(name, PARTITIONS)
    with Writing(broker, name) as writing:
        members = [join(name, name) for _ in range(3)]
        wait_until_shared(members, PARTITIONS, START_S)
        wait_until_they_read_on(*members)
        owned = [member.partitions for member in members]
        broker.kill()
        broker.start()
        wait_until_they_read_on(*members)
        assert [member.partitions for member in members] == owned, "the group outlives the broker"
        *alive, dead = members
        dead.kill()
        broker.kill()
        broker.start()
        wait_until_shared(alive, PARTITIONS, SESSION_AND_MORE_S)
        wait_until_they_read_on(*alive)
    check_that_every_record_counts_once(broker, name, writing, alive, gone=[dead])


@every_kind
def test_a_static_member_restarts_without_a_rebalance(setter: KafkaPython, join: JoinKind, name: str) -> None:
    """It has its partitions when it is back, reads on, and the other one notices nothing."""
    setter.create_topic(name, PARTITIONS)
    restarted, witness = join(name, name, "the-one-that-restarts"), join(name, name, "the-one-that-stays")
    wait_until_shared([restarted, witness], PARTITIONS, START_S)
    owned, noticed = restarted.partitions, (witness.rebalances, witness.revocations)
    restarted.leave()
    setter.produce(name, [Sent(value=str(number), partition=number) for number in owned])
    returned = join(name, name, "the-one-that-restarts")
    returned.wait_until_it_owns(owned, START_S)
    wait_until(lambda: sorted(returned.confirmed) == list(map(str, owned)), lambda: f"{returned} reads on")
    assert (witness.rebalances, witness.revocations) == noticed


@every_kind
def test_topics_by_regular_expression_are_found_as_they_come(
    setter: KafkaPython, join: JoinKind, name: str
) -> None:
    """A member that subscribed by an expression reads a topic that was made afterwards, and no other."""
    for number, topic in enumerate((f"{name}-1", f"not-{name}-1")):
        setter.create_topic(topic)
        setter.produce(topic, [Sent(value=f"first {number}")])
    member = join(f"^{name}-.*", name)
    wait_until(lambda: member.values() == ["first 0"], lambda: f"{member} reads the first", START_S)
    setter.create_topic(f"{name}-2")
    setter.produce(f"{name}-2", [Sent(value="second")])
    wait_until(
        lambda: member.values() == ["first 0", "second"], lambda: f"{member} reads the second", START_S
    )
    everything = {0: Committed(1)}
    for topic in (f"{name}-1", f"{name}-2"):
        wait_until(lambda: setter.committed(name, topic, [0]) == everything, f"{topic} is committed")  # noqa: B023
    member.leave()


@needs_kafkas_tools
@pytest.mark.parametrize(
    ("library", "protocol"),
    [("confluent-kafka", "classic"), pytest.param("java", "consumer", marks=needs_java_member)],
)
def test_kafka_consumer_groups_sees_a_live_group_and_ends_an_empty_one(
    setter: KafkaPython, join: JoinKind, tool: Tool, name: str, library: str, protocol: str
) -> None:
    """List, describe in every way, refuse to reset while somebody reads; then reset and delete."""
    setter.create_topic(name, PARTITIONS)
    setter.produce(name, [Sent(value=str(number), partition=number % PARTITIONS) for number in range(60)])
    member = join(name, name)
    wait_until(lambda: sum(member.committed.values()) == 60, lambda: f"{member} reads all", START_S)
    group = ("--group", name)

    listed = [line.split() for line in tool("--list", "--type", "--state").splitlines()]
    assert [name, protocol.title(), "Stable"] in listed
    offsets = rows(tool("--describe", *group, "--offsets"), name)
    assert sorted(row[:6] for row in offsets) == [[name, name, str(p), "10", "10", "0"] for p in ALL]
    assert {row[8] for row in offsets} == {f"compat-{library}"}
    (about,) = rows(tool("--describe", *group, "--state"), name)
    assert about[-2:] == ["Stable", "1"]
    assert ("range" if protocol == "classic" else "uniform") in about
    (about,) = rows(tool("--describe", *group, "--state", "--verbose"), name)
    epochs = ["-", "-"] if protocol == "classic" else ["2", "2"]
    assert about[-4:] == ["Stable", *epochs, "1"]
    (reader,) = rows(tool("--describe", *group, "--members"), name)
    assert reader[3:] == [f"compat-{library}", "6"]
    (reader,) = rows(tool("--describe", *group, "--members", "--verbose"), name)
    assert f"{name}:0,1,2,3,4,5" in reader

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


def rows(printed: str, group: str) -> list[list[str]]:
    """The rows about a group, in words."""
    return [line.split() for line in printed.splitlines() if line.startswith(group)]

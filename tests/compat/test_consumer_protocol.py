"""Groups that the server balances (KIP-848): real members in processes of their own, a broker that dies."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from bench.kafka.broker import java_command
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient
from tests.compat.support.driver import Committed
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.kafkas_tools import CONSUMER_GROUPS, TOOLS, needs_kafkas_tools, run_tool
from tests.compat.support.members import SESSION_TIMEOUT_MS, Join, Member, wait_until_shared
from tests.compat.support.writing import ALL, PARTITIONS, values_read, write
from tests.waiting import wait_until

from headgate.broker import Broker

JoinConsumer = Callable[..., Member]


@pytest.fixture
def join(broker: Broker) -> Iterator[JoinConsumer]:
    """Starts members of the consumer protocol, by topic, group and perhaps instance id."""
    with Join(broker.bootstrap_servers) as join:
        yield partial(join, "confluent-kafka", protocol="consumer")


def produce(setter: KafkaPython, topic: str, word: str) -> list[str]:
    """Ten records for each partition; their values, sorted."""
    return write(setter, topic, word, 10 * PARTITIONS)


def wait_until_read(word: str, values: list[str], *members: Member) -> None:
    """Returns when these have been read, each once, by any of the members."""
    wait_until(
        lambda: values_read(word, *members) == values,
        lambda: f"{word}: {len(values_read(word, *members))} of {len(values)} read by {members}",
        20,
    )


def committed(setter: KafkaPython, topic: str, count: int) -> Callable[[], bool]:
    """Whether the group, called as the topic, has committed so many records in every partition."""
    return lambda: setter.committed(topic, topic, ALL) == dict.fromkeys(ALL, Committed(count))


def test_three_members_come_and_go_while_they_read(
    setter: KafkaPython, join: JoinConsumer, name: str
) -> None:
    """Every record is read once, whoever has its partition, and committed."""
    setter.create_topic(name, PARTITIONS)
    one = join(name, name)
    wait_until_read("one", produce(setter, name, "one"), one)
    two, three = join(name, name), join(name, name)
    moving = produce(setter, name, "moving")
    wait_until_shared([one, two, three], PARTITIONS)
    assert sorted(len(member.partitions) for member in (one, two, three)) == [2, 2, 2]
    wait_until_read("moving", moving, one, two, three)
    wait_until_read("three", produce(setter, name, "three"), one, two, three)
    left_at = time.monotonic()
    one.leave()
    leaving = produce(setter, name, "leaving")
    wait_until_shared([two, three], PARTITIONS)
    assert time.monotonic() - left_at < SESSION_TIMEOUT_MS / 1000, "it said goodbye"
    wait_until_read("leaving", leaving, two, three)
    two.leave()
    three.wait_until_it_owns(ALL)
    wait_until_read("alone", produce(setter, name, "alone"), three)
    wait_until(committed(setter, name, 50), "everything is committed")
    assert not any(member.failures or member.refused_commits for member in (one, two, three))


def test_what_members_have_outlives_a_killed_broker(broker: Broker, join: JoinConsumer, name: str) -> None:
    """They go on with what they have, in the epoch they had: nothing is read twice, nothing left out."""
    with contextlib.closing(KafkaPython(broker.bootstrap_servers)) as setter:
        setter.create_topic(name, PARTITIONS)
        members = [join(name, name) for _ in range(3)]
        wait_until_shared(members, PARTITIONS)
        wait_until_read("before", produce(setter, name, "before"), *members)
        wait_until(committed(setter, name, 10), "everything is committed")
    owned = [(list(member.partitions), member.rebalances) for member in members]
    broker.kill()
    broker.start()
    with contextlib.closing(KafkaPython(broker.bootstrap_servers)) as setter:
        wait_until_read("after", produce(setter, name, "after"), *members)
        wait_until(committed(setter, name, 20), "everything is committed")
    assert [(member.partitions, member.rebalances) for member in members] == owned
    members[0].leave()
    wait_until_shared(members[1:], PARTITIONS)


def test_a_member_that_dies_is_replaced_after_its_session(
    setter: KafkaPython, join: JoinConsumer, name: str
) -> None:
    """Its partitions are read by the others from where it had committed."""
    setter.create_topic(name, PARTITIONS)
    victim, survivor = join(name, name), join(name, name)
    wait_until_shared([victim, survivor], PARTITIONS)
    before = produce(setter, name, "before")
    wait_until_read("before", before, victim, survivor)
    wait_until(committed(setter, name, 10), "everything is committed")
    victim.kill()
    after = produce(setter, name, "after")
    survivor.wait_until_it_owns(ALL, timeout_s=20)
    wait_until_read("after", after, survivor)
    assert values_read("before", victim, survivor) == before, "what was committed is read once"


def test_a_group_is_described_and_listed_by_its_type(
    broker: Broker, setter: KafkaPython, join: JoinConsumer, name: str
) -> None:
    """As Stable and of the type consumer, with what each member has."""
    setter.create_topic(name, PARTITIONS)
    wait_until_shared([join(name, name), join(name, name)], PARTITIONS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def is_stable() -> bool:
        described = admin.describe_consumer_groups([name])[name].result(10)
        return bool(described.state == ConsumerGroupState.STABLE)

    wait_until(is_stable, "the group is stable")
    group = admin.describe_consumer_groups([name])[name].result(10)
    assert group.type == ConsumerGroupType.CONSUMER
    assert (
        sorted(one.partition for member in group.members for one in member.assignment.topic_partitions) == ALL
    )
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(10)
    assert name in {one.group_id for one in listed.valid}
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CLASSIC}).result(10)
    assert name not in {one.group_id for one in listed.valid}


@needs_kafkas_tools
def test_javas_consumers_share_a_group_and_its_tools_describe_it(
    broker: Broker, setter: KafkaPython, name: str
) -> None:
    """One subscribes by name and one by expression; both leave properly, and everything is committed."""
    setter.create_topic(name, PARTITIONS)
    server = ("--bootstrap-server", broker.bootstrap_servers)
    console = (
        TOOLS + "consumer.ConsoleConsumer",
        *server,
        "--group",
        name,
        "--from-beginning",
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def is_shared() -> bool:
        group = admin.describe_consumer_groups([name])[name].result(10)
        counts = [len(member.assignment.topic_partitions) for member in group.members]
        return counts == [3, 3] and bool(group.state == ConsumerGroupState.STABLE)

    with contextlib.ExitStack() as stack:
        members = []
        for topics in (("--topic", name), ("--include", f"{name[:-1]}.*")):
            command = java_command(*console, "--command-property", "group.protocol=consumer", *topics)
            member = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(member.kill)
            members.append(stack.enter_context(member))
        wait_until(is_shared, "both have three partitions", 40)
        values = produce(setter, name, "java")
        wait_until(committed(setter, name, 10), "everything is committed", 20)
        asked = ("--describe", "--group", name, "--members", "--verbose")
        shown = run_tool(broker.bootstrap_servers, CONSUMER_GROUPS, *asked)
        assert shown.count(f"{name}:") == 4, "two members, each with what it has and is to have"
        for member in members:
            member.terminate()
        read = [line for member in members for line in member.communicate(timeout=20)[0].splitlines()]
    assert sorted(read) == values
    wait_until(
        lambda: not admin.describe_consumer_groups([name])[name].result(10).members, "both said goodbye", 5
    )

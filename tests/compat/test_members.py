"""librdkafka and Java in groups of both protocols: members come, go and are killed, the broker is killed.

The same promises for all four. What counts is what members have committed: every record once. Kafka's own
tool looks on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest
from tests.compat.support.driver import Committed, Sent
from tests.compat.support.java import JVM_START_S, needs_java_member
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.kafkas_tools import CONSUMER_GROUPS, needs_kafkas_tools, run_java
from tests.compat.support.members import Join, Member, wait_until_shared
from tests.compat.support.writing import (
    ALL,
    PARTITIONS,
    SESSION_AND_MORE_S,
    Writing,
    check_that_every_record_counts_once,
    wait_until_they_read_on,
)
from tests.waiting import wait_until

from headgate.broker import Broker

pytestmark = pytest.mark.timeout(180)

LONGER_THAN_A_START_MS = 12_000
"""A classic member whose session ends while the broker is down joins again, and gets other partitions."""
LONGER_THAN_ANY_START_MS = 120_000
"""If the session of a static member ends before its program runs again, the others get its partitions."""

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


@pytest.fixture
def join(broker: Broker, library: str, protocol: str) -> Iterator[JoinKind]:
    """Starts members of the kind the test is about, by topic, group and perhaps instance id."""
    with Join(broker.bootstrap_servers) as join:
        yield partial(join, library, protocol=protocol)


@pytest.fixture
def tool(broker: Broker) -> Tool:
    """Runs kafka-consumer-groups; what it printed, and what it complained of."""

    def run(*arguments: str) -> str:
        done = run_java(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap_servers, *arguments)
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
        wait_until_shared([first, second], PARTITIONS, JVM_START_S)
        third = join(name, name)
        wait_until_shared([first, second, third], PARTITIONS, JVM_START_S)
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
        members = [join(name, name, session_timeout_ms=LONGER_THAN_A_START_MS) for _ in range(3)]
        wait_until_shared(members, PARTITIONS, JVM_START_S)
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
    join = partial(join, session_timeout_ms=LONGER_THAN_ANY_START_MS)
    restarted, witness = join(name, name, "the-one-that-restarts"), join(name, name, "the-one-that-stays")
    wait_until_shared([restarted, witness], PARTITIONS, JVM_START_S)
    owned, noticed = restarted.partitions, (witness.rebalances, witness.revocations)
    restarted.leave()
    setter.produce(name, [Sent(value=str(number), partition=number) for number in owned])
    returned = join(name, name, "the-one-that-restarts")
    returned.wait_until_it_owns(owned, JVM_START_S)
    wait_until(
        lambda: sorted(returned.confirmed) == list(map(str, owned)),
        lambda: f"{returned} reads on",
        SESSION_AND_MORE_S,
    )
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
    wait_until(lambda: member.values() == ["first 0"], lambda: f"{member} reads the first", JVM_START_S)
    setter.create_topic(f"{name}-2")
    setter.produce(f"{name}-2", [Sent(value="second")])
    wait_until(
        lambda: member.values() == ["first 0", "second"], lambda: f"{member} reads the second", JVM_START_S
    )
    topics = [f"{name}-1", f"{name}-2"]

    def committed() -> list[dict[int, Committed | None]]:
        return [setter.committed(name, topic, [0]) for topic in topics]

    wait_until(lambda: committed() == [{0: Committed(1)}] * 2, lambda: f"both are committed: {committed()}")
    member.leave()
    assert member.values() == ["first 0", "second"]
    assert setter.committed(name, f"not-{name}-1", [0]) == {0: None}


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
    wait_until(lambda: sum(member.committed.values()) == 60, lambda: f"{member} reads all", JVM_START_S)
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

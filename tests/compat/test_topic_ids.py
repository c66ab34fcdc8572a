"""Offsets by topic ids, as Java's members of the new protocol want them, beside clients that know names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compat.support.driver import Committed
from tests.compat.support.java import JVM_START_S, needs_java_member
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.members import Join, wait_until_shared
from tests.compat.support.wiretap import Wiretap
from tests.compat.support.writing import write
from tests.waiting import wait_until

import headgate
from headgate.broker import Broker
from headgate.client.cluster import Cluster
from headgate.domain.ids import TopicName
from headgate.wire.messages.offset_commit import OffsetCommitRequest
from headgate.wire.messages.offset_fetch import OffsetFetchRequest

pytestmark = [
    needs_java_member,
    pytest.mark.timeout(120),
]

PARTITIONS = 4
ALL = list(range(PARTITIONS))
BY_ID = 10
SETTINGS = {
    # Or members who miss their topic would create another.
    "auto.create.topics.enable": "false",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
}


@pytest.fixture(scope="module")
def wiretap() -> Iterator[Wiretap]:
    """What is asked about offsets in this file."""
    with Wiretap(OffsetCommitRequest.API_KEY, OffsetFetchRequest.API_KEY) as wiretap:
        yield wiretap


@pytest.fixture(scope="module")
def broker(wiretap: Wiretap) -> Iterator[Broker]:
    """A broker whose clients all come through the wiretap."""
    with headgate.run(SETTINGS, advertise=wiretap.address) as broker:
        wiretap.let_through_to(broker.host, broker.port)
        yield broker


@pytest.fixture
def join(broker: Broker) -> Iterator[Join]:
    """Starts members; whatever is left of them at the end of the test is killed."""
    with Join(broker.bootstrap_servers) as join:
        yield join


def topic_id(broker: Broker, topic: str) -> bytes:
    """The id of the topic that has the name now."""
    with Cluster(broker.bootstrap_servers) as cluster:
        (described,) = cluster.metadata([TopicName(topic)]).topics
        return described.topic_id


def commits(wiretap: Wiretap, group: str) -> list[tuple[int, str, bytes]]:
    """Each topic of each commit of the group: by which version, name and id it was called."""
    return [
        (version, topic.name, topic.topic_id)
        for version, request in wiretap.heard(OffsetCommitRequest)
        for topic in request.topics
        if request.group_id == group
    ]


def fetches(wiretap: Wiretap, group: str) -> list[tuple[int, str, bytes]]:
    """The same of each fetch."""
    return [
        (version, topic.name, topic.topic_id)
        for version, request in wiretap.heard(OffsetFetchRequest)
        for one in request.groups
        for topic in one.topics or ()
        if one.group_id == group
    ]


def test_java_members_say_ids_and_others_in_their_group_say_names(
    broker: Broker, wiretap: Wiretap, setter: KafkaPython, join: Join, name: str
) -> None:
    """On the wire, for the same offsets; each reads on where the other one was."""
    setter.create_topic(name, PARTITIONS)
    values = write(setter, name, "first", 5 * PARTITIONS, PARTITIONS)
    java, confluent = (join(one, name, name, protocol="consumer") for one in ("java", "confluent-kafka"))
    wait_until_shared([java, confluent], PARTITIONS, JVM_START_S)
    values += write(setter, name, "second", 5 * PARTITIONS, PARTITIONS)
    wait_until(lambda: sorted(java.confirmed + confluent.confirmed) == sorted(values), "all is read once", 20)
    assert java.confirmed
    assert confluent.confirmed
    confluent.leave()
    java.wait_until_it_owns(ALL)
    values += write(setter, name, "third", 5 * PARTITIONS, PARTITIONS)
    wait_until(lambda: sorted(java.confirmed + confluent.confirmed) == sorted(values), "it reads on", 20)
    assert setter.committed(name, name, ALL) == dict.fromkeys(ALL, Committed(15))

    by_id = (BY_ID, "", topic_id(broker, name))
    for heard in (commits(wiretap, name), fetches(wiretap, name)):
        by_name = set(heard) - {by_id}
        assert by_id in heard
        assert {(called, one_id) for _, called, one_id in by_name} == {(name, bytes(16))}
        assert max(version for version, _, _ in by_name) < BY_ID


def test_a_java_member_goes_from_a_topic_to_another_of_the_same_name(
    broker: Broker, wiretap: Wiretap, setter: KafkaPython, join: Join, name: str
) -> None:
    """What was committed in the first is nobody's start in the second, which is committed by its own id."""
    setter.create_topic(name, PARTITIONS)
    old_id = topic_id(broker, name)
    old = write(setter, name, "old", 6 * PARTITIONS, PARTITIONS)
    member = join("java", name, name, protocol="consumer")
    wait_until(lambda: sorted(member.confirmed) == sorted(old), lambda: f"{member} reads all", JVM_START_S)
    setter.delete_topic(name)
    member.wait_until_it_owns([])
    assert setter.committed(name, name, ALL) == dict.fromkeys(ALL)

    setter.create_topic(name, PARTITIONS)
    new_id = topic_id(broker, name)
    new = write(setter, name, "new", 4 * PARTITIONS, PARTITIONS)
    wait_until(lambda: sorted(member.confirmed) == sorted(old + new), lambda: f"{member} reads the new", 30)
    assert setter.committed(name, name, ALL) == dict.fromkeys(ALL, Committed(4))
    said = [one_id for version, _, one_id in commits(wiretap, name) if version == BY_ID]
    assert said == sorted(said, key=[old_id, new_id].index)
    assert set(said) == {old_id, new_id}
    assert not member.refused_commits

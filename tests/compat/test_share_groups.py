"""Share groups with real clients: Java's KafkaShareConsumer and confluent-kafka's ShareConsumer (KIP-932)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.compat.support.java import java_member_missing
from tests.compat.support.share_members import ShareMember, ShareMembership
from tests.waiting import wait_until

import headgate
from headgate.broker import Broker

SETTINGS = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.assignment.interval.ms": "100",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.delivery.count.limit": "4",
}
JAVA = pytest.param(
    "java", marks=pytest.mark.skipif(java_member_missing() is not None, reason=java_member_missing() or "")
)
LIBRARIES = [JAVA, "confluent"]
JOIN_S = 40.0
Join = Callable[..., ShareMember]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of the file's own, whose share groups are quick."""
    with headgate.run(SETTINGS) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic, and a share group of the same name that begins at its first record."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    begin_at_the_start(admin, name)
    return name


def begin_at_the_start(admin: AdminClient, name: str) -> None:
    """Have a share group begin at the first record."""
    group = ConfigResource(ConfigResource.Type.GROUP, name)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group.add_incremental_config(entry)
    for done in admin.incremental_alter_configs([group]).values():
        done.result()


@pytest.fixture
def join(broker: Broker, topic: str) -> Iterator[Join]:
    """Starts members; those that are left are killed."""
    members: list[ShareMember] = []

    def start(library: str, **more: Any) -> ShareMember:
        membership = ShareMembership(broker.bootstrap_servers, topic, topic, library, **more)
        members.append(ShareMember(membership))
        return members[-1]

    yield start
    for member in members:
        member.end()


def _write(broker: Broker, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    producer.flush()


def _all(members: list[ShareMember]) -> Counter[str]:
    return Counter(value for member in members for value in member.values)


def _got(members: list[ShareMember], values: list[str], timeout_s: float = JOIN_S) -> None:
    """Wait until the members together have got each value as often as it is named."""
    expected = Counter(values)
    wait_until(
        lambda: _all(members) >= expected,
        lambda: f"{expected - _all(members)}; {[*map(str, members)]}",
        timeout_s,
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_explicit_acknowledgement(broker: Broker, topic: str, join: Join, library: str) -> None:
    """Accepted and rejected records come once, released ones again; renewed ones stay with the member."""
    values = ["a", "reject", "release", "b"] + (["renew"] if library == "java" else [])
    _write(broker, topic, values)
    member = join(library)
    _got([member], [*values, "release"])
    wait_until(lambda: member.acknowledged >= 2, lambda: str(member))
    _write(broker, topic, ["last"])
    _got([member], ["last"])
    member.leave()
    assert member.refusals == []
    counts = {(value, count) for _, _, value, count in member.records}
    assert {("release", 1), ("release", 2), ("a", 1)} <= counts
    seen = Counter(member.values)
    assert (seen["a"], seen["reject"], seen["release"], seen["last"]) == (1, 1, 2, 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_implicit_acknowledgement(broker: Broker, topic: str, join: Join, library: str) -> None:
    """A thousand records come once each, and none to the next member."""
    values = [f"v{number}" for number in range(1_000)]
    _write(broker, topic, values)
    member = join(library, explicit=False)
    _got([member], values)
    wait_until(lambda: member.acknowledged == len(member.polls), lambda: str(member))
    member.leave()
    assert Counter(member.values) == Counter(values)
    second = join(library, explicit=False)
    _write(broker, topic, ["last"])
    _got([second], ["last"])
    assert second.values == ["last"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_poison_record(broker: Broker, topic: str, join: Join, library: str) -> None:
    """A record that is always released comes as often as the limit allows; the others come once."""
    values = [f"v{number}" for number in range(10)]
    _write(broker, topic, [*values[:5], "poison", *values[5:]])
    member = join(library)
    _got([member], [*values, *["poison"] * 4])
    _write(broker, topic, ["last"] * 2)
    _got([member], ["last"] * 2)
    assert Counter(member.values) == Counter([*values, *["poison"] * 4, *["last"] * 2])


@pytest.mark.skipif(java_member_missing() is not None, reason=java_member_missing() or "")
def test_record_limit(broker: Broker, topic: str, join: Join) -> None:
    """A member in record-limit mode never gets more than it asked for (KIP-1206)."""
    values = [f"v{number}" for number in range(50)]
    _write(broker, topic, values)
    member = join("java", acquire_mode="record_limit", most=7)
    _got([member], values)
    assert max(member.polls) <= 7
    assert Counter(member.values) == Counter(values)


@pytest.mark.parametrize("library", LIBRARIES)
def test_killed_member(broker: Broker, topic: str, join: Join, library: str) -> None:
    """What a member had that was killed goes to the other two, soon, and nothing is lost or comes thrice."""
    values = [f"v{number}" for number in range(400)]
    held = join(library, holds=True, most=50)
    _write(broker, topic, values[:100])
    wait_until(lambda: held.records, lambda: str(held), JOIN_S)
    others = [join(library), join("confluent")]
    _write(broker, topic, values[100:])
    lost = set(held.values)
    rest = [value for value in values if value not in lost]
    _got(others, rest)
    held.end()
    began = time.monotonic()
    _got(others, values)
    assert time.monotonic() - began < 10  # the locks last 30 seconds
    assert set(_all(others).values()) == {1}
    again = {value: count for member in others for _, _, value, count in member.records if value in lost}
    assert set(again.values()) == {2}
    assert [*others[0].refusals, *others[1].refusals] == []


def test_killed_broker(broker: Broker, topic: str, join: Join) -> None:
    """What was acknowledged before the broker was killed never comes again; the rest does."""
    values = [f"v{number}" for number in range(100)]
    _write(broker, topic, values)
    accepting, holding = join("confluent", most=10), join("confluent", holds=True, most=10)
    _got([accepting, holding], values)
    wait_until(lambda: accepting.acknowledged == len(accepting.polls), lambda: str(accepting))
    accepted = set(accepting.values)
    broker.kill()
    holding.end()
    broker.start()
    _got([accepting], values, timeout_s=60)
    assert Counter(accepting.values) == Counter(values)
    assert set(holding.values) == set(values) - accepted

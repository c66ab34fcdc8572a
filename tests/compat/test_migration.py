"""Groups of real clients that move from one protocol to the other and back while they read.

What counts is what members have committed: every record once, whichever protocol its reader spoke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from tests.compat.support.java import JVM_START_S, needs_java_member
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.members import Join, Member, wait_until_shared
from tests.compat.support.writing import (
    ALL,
    PARTITIONS,
    SESSION_AND_MORE_S,
    Writing,
    check_that_every_record_counts_once,
    wait_until_they_read_on,
)

from headgate.admin import Admin
from headgate.broker import Broker

pytestmark = pytest.mark.timeout(180)

every_kind = pytest.mark.parametrize(
    ("library", "assignor"),
    [
        ("confluent-kafka", "range"),
        ("confluent-kafka", "cooperative-sticky"),
        pytest.param("java", "range", marks=needs_java_member),
    ],
)

JoinWith = Callable[..., Member]


@pytest.fixture
def join(broker: Broker, library: str, assignor: str, name: str) -> Iterator[JoinWith]:
    """Starts members that speak one protocol or the other, in the group that reads the test's topic."""
    with closing(KafkaPython(broker.bootstrap_servers)) as setter:
        setter.create_topic(name, PARTITIONS)
    with Join(broker.bootstrap_servers) as join:
        yield lambda protocol, instance_id=None, **more: join(
            library, name, name, instance_id, assignor=assignor, protocol=protocol, **more
        )


def group_type(broker: Broker, group: str) -> str:
    """The type of a group, as Kafka calls it."""
    with Admin(broker.bootstrap_servers) as admin:
        (listed,) = [one for one in admin.list_groups() if one.group_id == group]
    return listed.group_type.lower()


@every_kind
def test_a_group_rolls_to_the_new_protocol_and_back_while_it_reads(
    broker: Broker, join: JoinWith, name: str
) -> None:
    """One member after the other is restarted with the other protocol: every record counts once."""
    with Writing(broker, name) as writing:
        members, gone = [join("classic") for _ in range(3)], []
        wait_until_shared(members, PARTITIONS, JVM_START_S)
        for protocol in ("consumer", "classic"):
            for number in range(3):
                members[number].leave()
                gone.append(members[number])
                members[number] = join(protocol)
                wait_until_shared(members, PARTITIONS, JVM_START_S)
                wait_until_they_read_on(*members)
            assert group_type(broker, name) == protocol
    check_that_every_record_counts_once(broker, name, writing, members, gone)


@every_kind
def test_a_mixed_group_outlives_kills(broker: Broker, join: JoinWith, name: str) -> None:
    """The broker is killed, then members of both protocols; what is left is classic and reads everything."""
    with Writing(broker, name) as writing:
        stays, dies = join("classic"), join("classic")
        new = join("consumer")
        wait_until_shared([stays, dies, new], PARTITIONS, JVM_START_S)
        wait_until_they_read_on(stays, dies, new)
        broker.kill()
        broker.start()
        wait_until_they_read_on(stays, dies, new)
        dies.kill()
        wait_until_shared([stays, new], PARTITIONS, SESSION_AND_MORE_S)
        assert group_type(broker, name) == "consumer"
        new.kill()
        stays.wait_until_it_owns(ALL, SESSION_AND_MORE_S)
        assert group_type(broker, name) == "classic"
        wait_until_they_read_on(stays)
    check_that_every_record_counts_once(broker, name, writing, [stays], [dies, new])


@every_kind
def test_static_members_change_their_protocol_in_their_place(
    broker: Broker, join: JoinWith, name: str
) -> None:
    """Each has what it had, there and back, and the one that stays notices nothing on the way there."""
    with Writing(broker, name) as writing:
        # A JVM may need longer to start than the shortest session.
        moves = join("classic", "moves", session_timeout_ms=round(JVM_START_S * 1000))
        stays = join("classic", "stays")
        wait_until_shared([moves, stays], PARTITIONS, JVM_START_S)
        wait_until_they_read_on(moves, stays)
        owned, noticed = moves.partitions, (stays.rebalances, stays.revocations)
        moves.leave()
        moved = join("consumer", "moves")
        moved.wait_until_it_owns(owned, JVM_START_S)
        wait_until_they_read_on(moved, stays)
        assert (stays.rebalances, stays.revocations) == noticed
        assert group_type(broker, name) == "consumer"
        moved.leave()
        back = join("classic", "moves")
        wait_until_shared([back, stays], PARTITIONS, JVM_START_S)
        wait_until_they_read_on(back, stays)
        assert group_type(broker, name) == "classic"
    check_that_every_record_counts_once(broker, name, writing, [back, stays], [moves, moved])

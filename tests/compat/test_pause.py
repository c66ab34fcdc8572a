"""librdkafka and Java in a group whose partitions are paused, rewound and resumed while it runs (KIP-1249).

The clients know nothing of it: they see partitions revoked and assigned. Rewound records are read again once;
everything else is read once, as ever.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.compat.support.java import JVM_START_S, needs_java_member
from tests.compat.support.members import Join, Member, wait_until_shared
from tests.compat.support.writing import (
    ALL,
    PARTITIONS,
    SESSION_AND_MORE_S,
    Writing,
    wait_until_they_read_on,
)
from tests.waiting import wait_until

from headgate.admin import Admin, TopicPartition
from headgate.broker import Broker
from headgate.client.errors import PartlyRefused
from headgate.client.offsets import Committer, commit_offsets
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

pytestmark = pytest.mark.timeout(180)

both_libraries = pytest.mark.parametrize(
    "library", ["confluent-kafka", pytest.param("java", marks=needs_java_member)]
)
JoinKind = Callable[..., Member]
HELD = [0, 3]
"""The partitions that are paused."""
TARGET = 5


@pytest.fixture
def join(broker: Broker, library: str) -> Iterator[JoinKind]:
    """Starts members of the consumer protocol."""
    with Join(broker.bootstrap_servers) as join:
        yield partial(join, library, protocol="consumer")


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(broker.bootstrap_servers, timeout_s=20) as admin:
        yield admin


def create(admin: Admin, name: str) -> None:
    """Create the test's topic."""
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))


def held(name: str) -> list[TopicPartition]:
    """The paused partitions of a test's topic."""
    return [TopicPartition(TopicName(name), partition) for partition in HELD]


def committed(admin: Admin, group: str) -> dict[int, int]:
    """What is committed, by partition."""
    return {where.partition: each.offset for where, each in admin.committed_offsets(group).items()}


def wait_until_others_read_on(admin: Admin, group: str) -> None:
    """Returns when each partition that is not held has been committed further."""
    before = committed(admin, group)
    others = set(ALL) - set(HELD)
    wait_until(
        lambda: all(committed(admin, group)[one] > before[one] for one in others),
        lambda: f"{sorted(others)} are read on: {before}, {committed(admin, group)}",
        SESSION_AND_MORE_S,
    )


def check_that_only_what_was_rewound_counts_twice(
    admin: Admin,
    name: str,
    writing: Writing,
    before: dict[int, int],
    alive: list[Member],
    gone: list[Member],
) -> None:
    """`before` are the offsets of the held partitions when they were rewound to TARGET."""
    everything = dict.fromkeys(ALL, writing.count)
    wait_until(
        lambda: committed(admin, name) == everything,
        lambda: f"all {writing.count} are committed: {committed(admin, name)}, {alive}",
        SESSION_AND_MORE_S,
    )
    for member in alive:
        member.leave()
    unheard = {value for member in gone for value in member.unconfirmed.values()}
    confirmed = Counter(value for member in [*alive, *gone] for value in member.confirmed)
    wrong = {}
    for number, value in enumerate(writing.values):
        where, offset = number % PARTITIONS, number // PARTITIONS
        times = 2 if TARGET <= offset < before.get(where, 0) else 1
        if confirmed[value] != times and value not in unheard:
            wrong[where, offset] = (confirmed[value], times)
    assert wrong == {}, f"rewound from {before} to {TARGET}"


@both_libraries
def test_what_is_rewound_comes_again_once_and_the_rest_goes_on(
    broker: Broker, admin: Admin, join: JoinKind, name: str
) -> None:
    """One call does it; a member that joins meanwhile gets its share."""
    create(admin, name)
    with Writing(broker, name) as writing:
        members = [join(name, name), join(name, name)]
        wait_until_shared(members, PARTITIONS, JVM_START_S)
        wait_until_they_read_on(*members)
        wait_until(lambda: min(committed(admin, name).values()) > TARGET + 3, "enough is read", 30)
        rewound = admin.rewind(name, dict.fromkeys(held(name), TARGET), reason="once more", timeout_s=30)
        before = {each.partition.partition: each.before.offset for each in rewound if each.before}
        assert sorted(before) == HELD
        members.append(join(name, name))
        wait_until_shared(members, PARTITIONS, JVM_START_S)
        wait_until_they_read_on(*members)
    check_that_only_what_was_rewound_counts_twice(admin, name, writing, before, members, [])


@both_libraries
def test_the_others_read_on_while_partitions_are_held(
    broker: Broker, admin: Admin, join: JoinKind, name: str
) -> None:
    """Whatever is killed meanwhile: the owner before it released them, the broker at each step."""
    create(admin, name)
    with Writing(broker, name) as writing:
        members = [join(name, name), join(name, name), join(name, name)]
        wait_until_shared(members, PARTITIONS, JVM_START_S)
        wait_until_they_read_on(*members)
        wait_until(lambda: min(committed(admin, name).values()) > TARGET + 3, "enough is read", 30)

        admin.pause_partitions(name, held(name), reason="test", caller="test")
        owner = next(member for member in members if set(HELD) & set(member.partitions))
        owner.kill()
        members.remove(owner)
        broker.kill()
        broker.start()
        admin.wait_until_paused(name, held(name), 60)
        before = {one: offset for one, offset in committed(admin, name).items() if one in HELD}
        wait_until_others_read_on(admin, name)
        assert {one: offset for one, offset in committed(admin, name).items() if one in HELD} == before
        assert not any(set(HELD) & set(member.partitions) for member in members)

        with pytest.raises(PartlyRefused, match="UNKNOWN_MEMBER_ID"):
            _commit_as_a_former_owner(admin, name)
        admin.alter_offsets(name, dict.fromkeys(held(name), TARGET))
        broker.kill()
        broker.start()
        assert {one: committed(admin, name)[one] for one in HELD} == dict.fromkeys(HELD, TARGET)
        wait_until_others_read_on(admin, name)
        admin.resume_partitions(name, held(name))
        wait_until_shared(members, PARTITIONS, JVM_START_S)
        wait_until_they_read_on(*members)
        time.sleep(0.2)
    check_that_only_what_was_rewound_counts_twice(admin, name, writing, before, members, [owner])


def _commit_as_a_former_owner(admin: Admin, name: str) -> None:
    """Commit as a member that is gone would."""
    former = Committer("no-member-any-more", 1)
    commit_offsets(admin.cluster, GroupId(name), dict.fromkeys(held(name), 99), committer=former)

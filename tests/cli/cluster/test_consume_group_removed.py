"""`headgate consume --group` goes on at the committed offsets after others could have changed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from tests.waiting import wait_until

from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.cli.consume.options import Options
from headgate.cli.consume.run import _Limits, _Member, _print_all, _Reading
from headgate.client.cluster import READ_UNCOMMITTED
from headgate.client.membership import MemberSettings, Membership, remove_member
from headgate.domain.ids import GroupId, MemberId, TopicName

pytestmark = pytest.mark.timeout(60)

SETTINGS = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}
WHERE = TopicPartition(TopicName("t"), 0)
Read = Callable[[], int]


def produce(servers: str, count: int) -> None:
    """Produce records."""
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(WHERE.topic, str(number), partition=0)
    assert producer.flush(10) == 0


@contextmanager
def member_of_a_group() -> Iterator[tuple[Admin, _Member, Read]]:
    """Let a member of group g read a topic of ten records; yield it, and what lets it read on."""
    settings = MemberSettings(group_id=GroupId("g"), topics=(WHERE.topic,))
    with run(SETTINGS) as broker, Admin(servers := broker.bootstrap_servers) as admin:
        admin.create_topic(WHERE.topic, 1)
        produce(servers, 10)
        with Membership(servers, settings) as membership:
            membership.wait_for_assignment(10)
            options = Options(from_beginning=True)
            member = _Member(membership, _Reading(admin.cluster, READ_UNCOMMITTED), options)

            def read() -> int:
                _, count = _print_all(
                    member.reading, member._follow(), _Limits(None, None), lambda record: None
                )
                return count

            assert read() == 10
            yield admin, member, read


def fence(admin: Admin, member: Membership) -> None:
    """Remove the member from its group, and wait until it has joined again."""
    remove_member(admin.cluster, member.settings.group_id, MemberId(member.member_id), None)
    wait_until(lambda: bool(member.view().lost and member.view().assigned), "the member is back")


def test_a_member_that_was_removed_commits_nothing_over_a_reset() -> None:
    """A process that slept for longer than its session: what it has read before is read again."""
    with member_of_a_group() as (admin, member, read):
        member._commit({WHERE: 3})
        fence(admin, member.member)
        member._commit(member.reading.positions)
        assert admin.committed_offsets("g")[WHERE].offset == 3
        assert read() == 7
        member._commit(member.reading.positions)
        assert admin.committed_offsets("g")[WHERE].offset == 10


def test_a_topic_that_is_created_again_is_read_from_its_start() -> None:
    """A position in the former topic is never committed for the new one."""
    with member_of_a_group() as (admin, member, read):
        admin.delete_topics([WHERE.topic])
        admin.create_topic(WHERE.topic, 1)
        produce(",".join(f"{host}:{port}" for host, port in admin.cluster.addresses), 20)
        member._commit(member.reading.positions)
        assert admin.committed_offsets("g") == {}
        wait_until(lambda: read() == 20, "all records of the new topic are read at once")

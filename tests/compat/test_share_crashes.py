"""Crashes of members and of the broker, with three members of a share group from two client libraries.

The value of a record says what becomes of it (`support/share_members.py`). So at the end each record must be
acknowledged or archived, by its value, in what the broker persisted; and nothing whose acknowledgement was
answered may come again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.support.java import java_member_missing
from tests.compat.support.share_members import ShareMember, ShareMembership
from tests.compat.support.share_states import Persisted, Place, persisted_states
from tests.compat.test_share_groups import SETTINGS, begin_at_the_start
from tests.waiting import wait_until

import headgate
from headgate.admin import Admin
from headgate.broker import Broker
from headgate.domain.ids import GroupId
from headgate.records.share_batches import DeliveryState

JAVA = pytest.mark.skipif(java_member_missing() is not None, reason=java_member_missing() or "")
LIMIT = int(SETTINGS["group.share.delivery.count.limit"])
RECORDS, PARTITIONS = 6_000, 3
WRITTEN_AT_ONCE, WRITTEN_EVERY_S = 30, 0.02
BEFORE_THE_CRASH = 300
"""Deliveries after which the crash comes."""
DONE_S = 120.0


class Queue:
    """A topic with records whose values say what becomes of them, and the members of its share group."""

    def __init__(self, broker: Broker, name: str, libraries: list[str]) -> None:
        self.broker = broker
        self.name = name
        self.members: list[ShareMember] = []
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
        begin_at_the_start(admin, name)
        for library in libraries:
            self.join(library)

    def join(self, library: str) -> None:
        """Start a member, which takes few records at a time, so that a crash finds much to do."""
        asked = ShareMembership(self.broker.bootstrap_servers, self.name, self.name, library, most=20)
        self.members.append(ShareMember(asked))

    def await_members(self) -> None:
        """Wait until each member is assigned a partition."""

        def assigned() -> list[int]:
            with Admin(self.broker.bootstrap_servers) as admin:
                group = admin.describe_share_groups([self.name])[GroupId(self.name)]
            return [] if group is None else [len(member.assignment) for member in group.members]

        wait_until(lambda: assigned() == [1] * PARTITIONS, lambda: f"{assigned()}", DONE_S)

    def write(self) -> None:
        """Write all records in some seconds, in a thread: the crash comes meanwhile."""
        self.writer = threading.Thread(target=self._write, daemon=True)
        self.writer.start()

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        for number in range(RECORDS):
            producer.produce(self.name, _value(number), partition=number % PARTITIONS)
            if number % WRITTEN_AT_ONCE == 0:
                producer.poll(WRITTEN_EVERY_S)
                time.sleep(WRITTEN_EVERY_S)
        producer.flush(DONE_S)

    def deliveries(self) -> Counter[str]:
        """Return how often each value came."""
        return Counter(chain.from_iterable(member.values for member in self.members))

    def await_deliveries(self, count: int) -> None:
        """Wait until so many records came, at least one to each member."""
        wait_until(
            lambda: self.deliveries().total() >= count and all(one.records for one in self.members),
            lambda: f"{self.deliveries().total()} deliveries: {[*map(str, self.members)]}",
            DONE_S,
        )

    def places(self) -> dict[Place, str]:
        """Return the value of each record that came."""
        return {(one[0], one[1]): one[2] for member in self.members for one in member.records}

    def await_end(self) -> dict[Place, Persisted]:
        """Wait until everything is acknowledged or archived, and return what was persisted."""
        final: dict[Place, Persisted] = {}

        def is_done() -> bool:
            nonlocal final
            found = persisted_states(self.broker.bootstrap_servers, self.name)
            final = {place: one for place, one in found.items() if one.state != DeliveryState.AVAILABLE}
            return len(final) == RECORDS

        wait_until(is_done, lambda: f"{len(final)} records are done: {[*map(str, self.members)]}", DONE_S)
        return final


def _value(number: int) -> str:
    """Return a value of which most are accepted, and some rejected, released once or released always."""
    for divisor, kind in ((50, "poison"), (20, "reject"), (10, "release")):
        if number % divisor == 0:
            return f"{kind}-{number}"
    return f"accept-{number}"


def _expected(value: str) -> int:
    is_archived = value.startswith(("poison", "reject"))
    return DeliveryState.ARCHIVED if is_archived else DeliveryState.ACKNOWLEDGED


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker for each test, because it is killed."""
    with headgate.run(SETTINGS) as broker:
        yield broker


def _is_as_asked(queue: Queue, forgotten: int) -> None:
    """Check the end of a queue whose broker crashed so often that a delivery may be forgotten."""
    final, places, came = queue.await_end(), queue.places(), queue.deliveries()
    assert {place: one.state for place, one in final.items()} == {
        place: _expected(value) for place, value in places.items()
    }
    assert set(came) == {_value(number) for number in range(RECORDS)}
    assert max(came.values()) <= LIMIT + forgotten, came.most_common(5)


def _answered(member: ShareMember) -> set[str]:
    """Return the values that the member accepted or rejected, and was answered without a refusal."""
    found: set[str] = set()
    begin = 0
    for size, is_kept in zip(list(member.polls), list(member.kept), strict=False):
        found.update(member.values[begin : begin + size] if is_kept else ())
        begin += size
    return {one for one in found if one.startswith(("accept", "reject"))}


@JAVA
@pytest.mark.parametrize("libraries", [["java", "confluent", "confluent"], ["java", "java", "java"]])
@pytest.mark.parametrize("killed", ["member", "broker", "both"])
def test_crash(broker: Broker, killed: str, libraries: list[str]) -> None:
    """Every record ends as its value asks for, and what was answered before the crash does not come again."""
    queue = Queue(broker, f"crash-{killed}-{len(set(libraries))}", libraries)
    try:
        queue.await_members()
        queue.write()
        queue.await_deliveries(BEFORE_THE_CRASH)
        settled = set().union(*map(_answered, queue.members))
        before = [len(member.records) for member in queue.members]
        if killed != "member":
            broker.kill()
            assert queue.writer.is_alive(), "the crash comes too late"
        if killed != "broker":
            queue.members[0].end()
            queue.join(libraries[0])
            before.append(0)
        if killed != "member":
            broker.start()
        _is_as_asked(queue, forgotten=int(killed != "member"))
        later = chain.from_iterable(
            one.values[begin:] for one, begin in zip(queue.members, before, strict=True)
        )
        assert not settled.intersection(later)
    finally:
        for member in queue.members:
            member.end()

"""A life of two groups on a real cluster: commits, deletions, and a topic that is created again.

After each step it notes the time, and what the coordinator says the committed offsets are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import confluent_kafka
from tests.waiting import wait_until

from headgate.admin import Admin, TopicPartition
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import TopicName
from headgate.spark.landing import offsets_as_of, offsets_now
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.delete_topics import DeleteTopicsRequest

Offsets = dict[tuple[str, TopicPartition], CommittedOffset]
"""Committed offsets by group and partition."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in ms, and the committed offsets then."""

    time: int
    committed: Offsets


class Life:
    """The groups and topics of one life; `tag` distinguishes their names from others'."""

    def __init__(self, bootstrap: str, tag: str = "") -> None:
        self.bootstrap = bootstrap
        self.groups = (f"landed-a{tag}", f"landed-b{tag}")
        self.flights, self.hotels = TopicName(f"flights{tag}"), TopicName(f"hotels{tag}")
        self.moments: list[Moment] = []

    def play(self) -> Iterator[None]:
        """Play step by step."""
        a, b = self.groups
        with Admin(self.bootstrap) as admin:
            for topic in (self.flights, self.hotels):
                self.create(admin, topic)
            first, second = (TopicPartition(self.flights, partition) for partition in range(2))
            other = TopicPartition(self.hotels, 0)
            admin.alter_offsets(a, {first: 1, second: 2, other: 3})
            self.note(admin)
            yield
            admin.alter_offsets(b, {first: CommittedOffset(4, -1, "note"), other: 9})
            admin.alter_offsets(a, {first: 5})
            self.note(admin)
            yield
            admin.delete_offsets(a, [second])
            admin.alter_offsets(a, {first: 2})
            self.note(admin)
            yield
            deletion = DeleteTopicsRequest(topic_names=[self.flights], timeout_ms=9000)
            admin.cluster.retrying(lambda: admin.cluster.any_node().request(deletion, 5))
            wait_until(
                lambda: admin.committed_offsets(b).keys() == {other}, "no offsets of the deleted topic"
            )
            self.note(admin)
            yield
            self.create(admin, self.flights)
            admin.alter_offsets(a, {first: 7})
            self.note(admin)
            yield
            admin.delete_groups([b])
            self.note(admin)
            yield

    def play_transactions(self) -> Iterator[None]:
        """Commit offsets in transactions that are committed, aborted, committed; stop before each end too."""
        group, topic = self.groups[0], str(self.flights)
        for offset, ends in ((11, "commit"), (12, "abort"), (13, "commit")):
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": self.bootstrap, "transactional.id": f"landing-{group}"}
            )
            producer.init_transactions(30)
            producer.begin_transaction()
            where = [confluent_kafka.TopicPartition(topic, 1, offset)]
            producer.send_offsets_to_transaction(where, self._no_member(group), 30)
            yield  # the offset of the open transaction is pending
            producer.commit_transaction(30) if ends == "commit" else producer.abort_transaction(30)
            time.sleep(0.3)  # markers are written after the producer is answered
            self.take_note()
            yield

    def _no_member(self, group: str) -> object:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def create(self, admin: Admin, topic: str) -> None:
        """Create a topic of two partitions, once its former namesake is gone."""
        wanted = CreatableTopic(name=topic, num_partitions=2, replication_factor=1)

        def created() -> bool:
            response = admin.cluster.any_node().request(CreateTopicsRequest(topics=[wanted], timeout_ms=9000))
            return not response.topics[0].error_code

        wait_until(created, f"topic {topic}")
        wait_until(lambda: topic in admin.topics(), f"topic {topic} in the metadata")

    def take_note(self) -> None:
        """Note the committed offsets now."""
        with Admin(self.bootstrap) as admin:
            self.note(admin)

    def note(self, admin: Admin) -> None:
        """Note the committed offsets, at a time before any later commit."""
        committed = {
            (group, where): offset
            for group in self.groups
            for where, offset in admin.committed_offsets(group).items()
        }
        self.moments.append(Moment(time.time_ns() // 1_000_000, committed))
        time.sleep(0.005)

    def landed_now(self, target: str) -> Offsets:
        """Return the offsets in the landed tables, of the groups of this life."""
        return self._read(offsets_now(target).to_pylist())

    def landed_at(self, target: str, time_ms: int) -> Offsets:
        """Return the offsets of the landed tables at a time; all must be known."""
        return self._read(offsets_as_of(target, time_ms).to_pylist())

    def _read(self, rows: list[dict[str, object]]) -> Offsets:
        found: Offsets = {}
        for row in rows:
            if row["group_id"] in self.groups:
                assert row["is_known"], row
                epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
                where = TopicPartition(TopicName(str(row["topic"])), int(str(row["partition"])))
                offset = CommittedOffset(
                    int(str(row["committed_offset"])), int(str(epoch)), str(row["metadata"])
                )
                assert (str(row["group_id"]), where) not in found
                found[str(row["group_id"]), where] = offset
        return found

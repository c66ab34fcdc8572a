"""Members of a group with server-side assignment (KIP-848): quick ones, and one that is slow.

A quick member is confluent-kafka with `group.protocol=consumer`, in a thread. The slow one uses Headgate's
own client, because no library lets its user delay a heartbeat or a commit: it heartbeats, reads and commits
on request, with the requested epoch.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from demo.story import BOARDING, TOPIC, DemoFailed
from headgate.client.cluster import Cluster
from headgate.client.offsets import LAST_BY_NAME
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.log.batch import iterate_records
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

QUICK_FLIGHTS_READ_PER_S = 10_000
"""Read rate of each quick member, until `hurry`."""

REBALANCE_TIMEOUT_MS = 60_000
_LEAVING = -1
_POLL_TIMEOUT_S = 0.1


class Stretch(NamedTuple):
    """Flights that a member has read and committed: offsets of one partition, the last not included."""

    partition: int
    first: int
    behind: int


class QuickMember(threading.Thread):
    """Reads, and commits after each batch, until `leave`."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.partitions: frozenset[int] = frozenset()
        self.counted: list[Stretch] = []
        self.problem: Exception | None = None
        self._unconfirmed: dict[int, int] = {}
        """The first offset of each partition that was read and is not committed yet."""
        self._is_hurrying, self._is_leaving = threading.Event(), threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": BOARDING,
                "group.protocol": "consumer",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )

    @property
    def count(self) -> int:
        """Return the number of flights that it has read and committed."""
        return sum(behind - first for _, first, behind in self.counted)

    def hurry(self) -> None:
        """Read as fast as possible from now on."""
        self._is_hurrying.set()

    def leave(self) -> None:
        """Leave the group, and wait until the thread has ended."""
        self._is_leaving.set()
        self.join()

    def run(self) -> None:
        """Run the member; called by the thread."""
        try:
            self._consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked)
            while not self._is_leaving.is_set():
                self._read_on()
        except Exception as problem:  # reported to the main thread, which ends the demo
            self.problem = problem
        finally:
            self._consumer.close()

    def _read_on(self) -> None:
        began = time.monotonic()
        batch: list[Any] = [m for m in self._consumer.consume(1000, _POLL_TIMEOUT_S) if m.error() is None]
        upto: dict[int, int] = {}
        for message in batch:
            self._unconfirmed.setdefault(message.partition(), message.offset())
            upto[message.partition()] = message.offset() + 1
        if upto:
            self._commit(upto)
        if not self._is_hurrying.is_set():
            pause_s = began + len(batch) / QUICK_FLIGHTS_READ_PER_S - time.monotonic()
            self._is_hurrying.wait(max(0.0, pause_s))

    def _commit(self, upto: dict[int, int]) -> None:
        offsets = [TopicPartition(TOPIC, partition, offset) for partition, offset in upto.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:  # a partition was revoked: the others count with the next commit
            return
        for partition, behind in upto.items():
            self.counted.append(Stretch(partition, self._unconfirmed.pop(partition), behind))

    def _assigned(self, _consumer: Consumer, given: list[TopicPartition]) -> None:
        self.partitions |= {one.partition for one in given}

    def _revoked(self, _consumer: Consumer, taken: list[TopicPartition]) -> None:
        self.partitions -= {one.partition for one in taken}
        for one in taken:
            self._unconfirmed.pop(one.partition, None)


class SlowMember:
    """A member that performs one step at a time, on request."""

    def __init__(self, address: str, name: str) -> None:
        self._cluster = Cluster(address, client_id=name)
        (topic,) = self._cluster.metadata([TopicName(TOPIC)]).topics
        self._topic_id = topic.topic_id
        self._member_id = str(uuid.uuid4())
        self.epoch = 0
        self.partitions: frozenset[int] = frozenset()
        self.counted: list[Stretch] = []

    def heartbeat(self) -> None:
        """Send a heartbeat, apply the assignment in the response, and acknowledge revocations at once."""
        told = self._send(self.epoch)
        while told is not None:
            has_let_go = not self.partitions <= told
            self.partitions = told
            told = self._send(self.epoch) if has_let_go else None

    def leave(self) -> None:
        """Leave the group."""
        self._send(_LEAVING)
        self.partitions = frozenset()
        self._cluster.close()

    def read(self, partition: int, first: int, count: int) -> None:
        """Read `count` flights of a partition. Raises `DemoFailed` if they do not exist."""
        offset = first
        while offset < first + count:
            fetched = self._cluster.fetch(TopicName(TOPIC), partition, offset).records
            offsets = [each for each, _ in iterate_records(fetched) if each >= offset]
            if not offsets:
                raise DemoFailed(f"partition {partition} of {TOPIC} gives no flight {offset}")
            offset = offsets[-1] + 1

    def commit(self, stretches: list[Stretch], epoch: int) -> ErrorCode:
        """Commit what was read, with an epoch; count the flights if the commit is accepted.

        All partitions have the same result: such a commit is accepted as a whole, or not at all.
        """
        message = OffsetCommitRequest(
            group_id=BOARDING,
            member_id=self._member_id,
            generation_id_or_member_epoch=epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=one.partition, committed_offset=one.behind
                        )
                        for one in stretches
                    ],
                )
            ],
        )
        node = self._cluster.coordinator(GroupId(BOARDING))
        response = node.request(message, at_most=LAST_BY_NAME)
        codes = {one.error_code for topic in response.topics for one in topic.partitions}
        if len(codes) != 1:
            raise DemoFailed(f"a commit was answered with {sorted(codes)}")
        answer = ErrorCode(codes.pop())
        if answer is ErrorCode.NONE:
            self.counted += stretches
        return answer

    def _send(self, epoch: int) -> frozenset[int] | None:
        """Send one heartbeat; return the assigned partitions, or None if nothing has changed."""
        owned = [TopicPartitions(topic_id=self._topic_id, partitions=sorted(self.partitions))]
        message = ConsumerGroupHeartbeatRequest(
            group_id=BOARDING,
            member_id=self._member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if epoch == 0 else -1,
            subscribed_topic_names=[TOPIC] if epoch == 0 else None,
            topic_partitions=owned if self.partitions else [],
        )
        response = self._cluster.ask_coordinator(GroupId(BOARDING), message)
        if response.error_code != ErrorCode.NONE:
            raise DemoFailed(f"a heartbeat was refused: {response.error_message}")
        self.epoch = response.member_epoch
        if response.assignment is None:
            return None
        told = (topic.partitions for topic in response.assignment.topic_partitions)
        return frozenset(itertools.chain.from_iterable(told))

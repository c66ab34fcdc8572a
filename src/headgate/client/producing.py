"""An idempotent producer of one topic, which sends batches one after another.

A batch that is sent again because a response was lost is stored once: it has sequence numbers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from headgate.client.cluster import RETRY_DELAY_S, Cluster
from headgate.client.errors import check
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName, TopicPartition
from headgate.log.batch import Record, encode_batch
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

ALL_REPLICAS = -1
LAST_BY_NAME = 12
"""The last version of Produce that identifies topics by name."""
_LAST_INIT_PRODUCER_ID = 5
_SEQUENCES = 1 << 31
_NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
_MURMUR_SEED, _MURMUR_FACTOR, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def create_by_use(cluster: Cluster, topic: TopicName) -> bool:
    """Have the broker create a topic, as producers do, unless it exists. Return whether it was created.

    Raises `RequestRefused`: UNKNOWN_TOPIC_OR_PARTITION if the broker does not create topics that are used
    (`auto.create.topics.enable`), INVALID_TOPIC_EXCEPTION.
    """
    (found,) = cluster.metadata([topic]).topics
    if found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        check(f"topic {topic}", 0 if found.error_code in _NOT_YET else found.error_code)
        return False
    message = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    deadline = time.monotonic() + cluster.timeout_s
    while True:
        (found,) = cluster.retrying(lambda: cluster.any_node().request(message)).topics
        if found.error_code == ErrorCode.NONE and found.partitions:
            return True
        if found.error_code not in _NOT_YET or time.monotonic() + RETRY_DELAY_S > deadline:
            check(f"topic {topic}", found.error_code or ErrorCode.LEADER_NOT_AVAILABLE)
        time.sleep(RETRY_DELAY_S)


class Producer:
    """Sends records to the partitions of a topic. Not thread-safe.

    `acks` is -1 (all replicas in sync) or 1 (the leader); `codec` the number of a codec of record batches.
    Raises what `Cluster` raises.
    """

    def __init__(
        self, cluster: Cluster, topic: TopicName, *, acks: int = ALL_REPLICAS, codec: int = 0
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.acks = acks
        self.codec = codec
        self.partition_count = len(cluster.partitions_of(topic))
        self._sequences: dict[int, int] = {}
        self._producer_id, self._epoch = (-1, -1) if acks != ALL_REPLICAS else self._identity()

    def partition_of(self, key: bytes) -> int:
        """Return the partition of a key, as Kafka's clients choose it."""
        return (murmur2(key) & 0x7FFF_FFFF) % self.partition_count

    def send(self, partition: int, records: Sequence[Record]) -> int:
        """Send records as one batch; return the offset of the first. It is -1 if it was stored before.

        Raises `RequestRefused`: MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_RECORD, ...
        """
        sequence = self._sequences.get(partition, 0)
        batch = encode_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence if self._producer_id >= 0 else -1,
            codec=self.codec,
        )
        request = ProduceRequest(
            acks=self.acks,
            timeout_ms=max(1, round(self.cluster.timeout_s * 900)),
            topic_data=[
                TopicProduceData(
                    name=self.topic,
                    partition_data=[PartitionProduceData(index=partition, records=bytes(batch))],
                )
            ],
        )
        offset = self.cluster.retrying(lambda: self._send(partition, request))
        self._sequences[partition] = (sequence + len(records)) % _SEQUENCES
        return offset

    def _send(self, partition: int, request: ProduceRequest) -> int:
        where = TopicPartition(self.topic, partition)
        ((leader, _),) = self.cluster.leaders_of([where]).items()
        (topic,) = leader.request(request, at_most=LAST_BY_NAME).responses
        (answer,) = topic.partition_responses
        if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return -1
        check(str(where), answer.error_code, _reason(answer))
        return answer.base_offset

    def _identity(self) -> tuple[int, int]:
        """Return a new producer id and its epoch."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)

        def attempt() -> tuple[int, int]:
            response = self.cluster.any_node().request(request, at_most=_LAST_INIT_PRODUCER_ID)
            check("a producer id", response.error_code)
            return response.producer_id, response.producer_epoch

        return self.cluster.retrying(attempt)


def _reason(answer: PartitionProduceResponse) -> str | None:
    """Return what a broker says about the first invalid record, else about the batch: often only a number."""
    first = next((one.batch_index_error_message for one in answer.record_errors), None)
    return first or answer.error_message


def murmur2(data: bytes) -> int:
    """Return the hash by which Kafka's clients choose the partition of a key, as an unsigned integer."""
    value = (_MURMUR_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _MURMUR_FACTOR & _MASK
        part = (part ^ part >> 24) * _MURMUR_FACTOR & _MASK
        value = value * _MURMUR_FACTOR & _MASK ^ part
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _MURMUR_FACTOR & _MASK
    value = (value ^ value >> 13) * _MURMUR_FACTOR & _MASK
    return value ^ value >> 15

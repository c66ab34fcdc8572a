"""The search for hanging transactions: open in a partition, but unknown to their coordinator.

No marker will end such a transaction, so committed readers do not get past it. It comes from a batch that
arrived after its transaction had ended, where the broker did not verify it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headgate.client.cluster import Cluster
from headgate.client.errors import check
from headgate.client.transactions import (
    ProducerState,
    broker_of,
    describe_producers,
    describe_transactions,
    list_transactions,
)
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, Millis, TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction of a partition that its coordinator does not know."""

    partition: TopicPartition
    producer: ProducerState
    start_offset: int
    """Offset of its first record: committed readers stop there."""

    @property
    def identity(self) -> tuple[TopicPartition, int, int]:
        """Return what no other transaction has: the partition, the producer and the first offset."""
        return self.partition, self.producer.producer_id, self.start_offset


def find_hanging(
    cluster: Cluster,
    topic: TopicName | None,
    partition: int | None,
    broker_id: int | None,
    longer_than_ms: int,
    now: Millis,
) -> list[HangingTransaction]:
    """Return the hanging transactions whose last record is older than `longer_than_ms`, sorted by partition.

    A younger one can be of a producer that has not added the partition yet. Partitions are asked again in the
    end: a transaction that ended meanwhile is not known to its coordinator any more, but does not hang.
    """
    if topic is not None and partition is not None:
        places = [TopicPartition(topic, partition)]
    else:
        if broker_id is not None:
            broker_of(cluster, broker_id)
        places = list(_partitions(cluster, topic, broker_id))
    candidates = [
        one for one in _open(cluster, places, broker_id) if now - one.producer.last_timestamp > longer_than_ms
    ]
    known = known_to_coordinators(cluster, {one.producer.producer_id for one in candidates})
    unknown = [one for one in candidates if (one.producer.producer_id, one.partition) not in known]
    still_open = {one.identity for one in _open(cluster, {one.partition for one in unknown}, broker_id)}
    return [one for one in unknown if one.identity in still_open]


def _open(
    cluster: Cluster, places: Collection[TopicPartition], broker_id: int | None
) -> list[HangingTransaction]:
    """Return the open transactions of the partitions, whether they hang or not."""
    if not places:
        return []
    return [
        HangingTransaction(where, producer, producer.current_transaction_start_offset)
        for where, producers in describe_producers(cluster, places, broker_id).items()
        for producer in producers
        if producer.current_transaction_start_offset is not None
    ]


def _partitions(cluster: Cluster, topic: TopicName | None, broker_id: int | None) -> Iterator[TopicPartition]:
    """Yield the partitions of a topic, or of all that can have transactions: all, or those with this replica.

    Of the internal topics only that of the groups' offsets is written in transactions.
    """
    for found in cluster.metadata(None if topic is None else [topic]).topics:
        if topic is None and found.is_internal and found.name != GROUP_OFFSETS_TOPIC:
            continue
        check(f"topic {found.name}", found.error_code)
        for one in found.partitions:
            if broker_id is None or broker_id in one.replica_nodes:
                yield TopicPartition(TopicName(str(found.name)), one.partition_index)


def known_to_coordinators(cluster: Cluster, producer_ids: set[int]) -> dict[tuple[int, TopicPartition], str]:
    """Return the partitions to which a coordinator will write markers, with the transactional id of each.

    The keys have the producer id and the partition.
    """
    if not producer_ids:
        return {}
    ids = [one.transactional_id for one in list_transactions(cluster, producer_ids=sorted(producer_ids))]
    return {
        (described.producer_id, where): described.transactional_id
        for described in describe_transactions(cluster, ids).values()
        if described is not None
        for where in described.partitions
    }

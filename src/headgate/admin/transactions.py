"""The operations of the Admin API on transactions, with the names of Java's Admin."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.admin.checking import checked
from headgate.admin.hanging import HangingTransaction, find_hanging
from headgate.admin.rewind import system_time
from headgate.client import transactions
from headgate.client.cluster import Cluster
from headgate.client.transactions import (
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from headgate.domain.ids import TopicName, TopicPartition

MAX_TRANSACTION_TIMEOUT_MS = 15 * 60_000
"""The default of `transaction.max.timeout.ms`."""


@checked
class TransactionAdmin:
    """Transactions of a cluster; the part of `headgate.admin.Admin` for them."""

    cluster: Cluster

    def list_transactions(
        self,
        states: Iterable[str] = (),
        *,
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids that every given filter admits, sorted.

        States are Kafka's names, with their case (`Ongoing`, `CompleteCommit`, ...). `longer_than_ms`: those
        that began longer ago than this; -1: all. The pattern (RE2) matches the whole id. Raises
        `VersionNotSupported` for a filter that the broker does not know, `RequestRefused`
        (INVALID_REGULAR_EXPRESSION, and INVALID_REQUEST for a state that it does not know), and
        `TransactionsMissing`, which has the rest, if some ids have no coordinator.
        """
        return transactions.list_transactions(
            self.cluster,
            list(states),
            list(producer_ids),
            longer_than_ms,
            transactional_id_pattern,
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | None]:
        """Return the transactional ids with their last transactions; None for one that does not exist."""
        return transactions.describe_transactions(self.cluster, transactional_ids)

    def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers that each partition knows, with the open transaction of each.

        `broker_id` asks the replica on this broker instead of the leader. Raises `PartlyRefused` and
        `RequestRefused` (UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED).
        """
        return transactions.describe_producers(self.cluster, partitions, broker_id)

    def find_hanging_transactions(
        self,
        topic: str | None = None,
        partition: int | None = None,
        *,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> list[HangingTransaction]:
        """Return the open transactions that no coordinator will end, sorted by partition.

        The search is in one partition, in a topic, or in all topics and the groups' offsets; with a
        `broker_id` in the replicas on this broker. Only those are found whose last record is older than
        `max_transaction_timeout_ms`. `abort_transaction` ends them. Raises what `describe_producers` raises,
        ValueError for a partition without a topic, and `TransactionsMissing` if nobody knows whether one
        hangs.
        """
        if partition is not None and topic is None:
            raise ValueError(f"partition {partition} of which topic?")
        name = None if topic is None else TopicName(topic)
        return find_hanging(
            self.cluster, name, partition, broker_id, max_transaction_timeout_ms, system_time()
        )

    def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None = None,
    ) -> None:
        """Abort a hanging transaction: its partition gets the marker, without the coordinator.

        `describe_producers` has the three numbers. For a transaction that its coordinator knows use
        `force_terminate_transaction`: this method would abort one partition of it, and nothing else.
        Raises `PartlyRefused`: INVALID_PRODUCER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        transactions.abort_transaction(
            self.cluster,
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=max(coordinator_epoch or 0, 0),
        )

    def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer]:
        """Fence the producers of transactional ids, and abort their open transactions.

        Returns the producer id and epoch that each has now. Ids that do not exist are created, as by Kafka.
        Raises `PartlyRefused`; the other ids are fenced.
        """
        return transactions.fence_producers(self.cluster, transactional_ids)

    def force_terminate_transaction(self, transactional_id: str) -> FencedProducer:
        """Abort the open transaction of a transactional id in all its partitions, and fence its producers.

        Returns what `fence_producers` returns. Raises `RequestRefused`.
        """
        return transactions.fence_producer(self.cluster, transactional_id)

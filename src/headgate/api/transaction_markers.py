"""Writes one marker, which ends a producer's transaction in one partition of data or of group offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.api.contract import Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.core.contract import TransactionEnd
from headgate.core.offsets.commands import EndTransaction
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from headgate.domain.settings import LONG_MAX
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition
from headgate.topics.transactions import TransactionMarker

OnWritten = Callable[[ErrorCode], None]


def write_marker(
    node: Node,
    topic: str,
    index: int,
    end: TransactionEnd,
    transaction_version: int,
    on_written: OnWritten,
    *,
    is_of_this_node: bool = False,
) -> RequestSteps[None]:
    """Write the marker, and call `on_written` when it is durable, or with the error.

    Where neither the partition nor the coordinator syncs what it writes, the page cache is sufficient.
    INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH: it is of no producer, or of no epoch.
    UNKNOWN_TOPIC_OR_PARTITION: there is no such partition, or its topic was deleted. `transaction_version`:
    from 2 on the marker's epoch must be greater than that of the transaction. `is_of_this_node`: this node's
    coordinator decided it.
    """
    if end.producer.producer_id < 0:
        on_written(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return
    if end.producer.epoch < 0:
        on_written(ErrorCode.INVALID_PRODUCER_EPOCH)
        return
    if topic == GROUP_OFFSETS_TOPIC:
        _write_to_group_shard(node, index, end, on_written)
        return
    found = node.topics.by_name(topic)
    partition = None if found is None or found.is_internal else found.find_partition(index)
    if partition is None:
        on_written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    yield from opened_aside(partition)
    producer = end.producer
    marker = TransactionMarker(
        producer.producer_id,
        producer.epoch,
        end.is_committed,
        end.coordinator_epoch,
        transaction_version,
        is_of_this_node,
    )
    outcome = partition.end_transaction(marker, node.system_time())
    if outcome.error != ErrorCode.NONE:
        is_gone = partition.topic.is_deleted
        on_written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else outcome.error)
        return
    if _must_be_synced(node, partition):
        _when_durable(node, partition, on_written)
    else:
        on_written(ErrorCode.NONE)


def _write_to_group_shard(node: Node, index: int, end: TransactionEnd, on_written: OnWritten) -> None:
    if not 0 <= index < node.coordinator.shard_count:
        on_written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return

    def answered(result: Any) -> None:
        on_written(error_of(result))

    node.coordinator.submit_to(index, EndTransaction(end), answered)


def _must_be_synced(node: Node, partition: Partition) -> bool:
    """Return whether the marker could be lost while the coordinator remembers that it was written."""
    policy = partition.topic.policy
    if policy.is_durable or policy.flush_ms < LONG_MAX or partition.is_flush_due:
        return True
    states = node.topics.by_name(TRANSACTION_STATE_TOPIC)
    return states is None or states.policy.is_durable


def _when_durable(node: Node, partition: Partition, on_written: OnWritten) -> None:
    def done(is_durable: bool) -> None:
        partition.synced(is_durable)
        if is_durable:
            on_written(ErrorCode.NONE)
        elif partition.topic.is_deleted:
            on_written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            on_written(ErrorCode.KAFKA_STORAGE_ERROR)

    node.durability.when_durable(partition.log, done)

"""Syncs of a partition's log that no response waits for: readers see its records after them, or a topic in
page-cache mode limits with `flush.messages` and `flush.ms` what a power cut can lose.
"""

from __future__ import annotations

from functools import partial

from headgate.api.contract import Node
from headgate.log.log import Log
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic


def sync_in_background(node: Node, partition: Partition, log: Log) -> None:
    """Start a sync of the partition's log."""
    node.durability.when_durable(log, partition.synced)


def plan_flush(node: Node, partition: Partition) -> None:
    """Sync the log when its records are as old as `flush.ms` allows, unless that is planned."""
    delay_ms = partition.plan_flush()
    if delay_ms is not None:
        node.call_later(delay_ms, partial(_flush, node, partition))


def _flush(node: Node, partition: Partition) -> None:
    if partition.flush_begins():
        sync_in_background(node, partition, partition.log)


def sync_after_change(node: Node, topic: Topic) -> None:
    """Sync, now or in time, the records that the changed settings of their topic do not leave unsynced.

    In a topic that has become durable readers do not see them until then.
    """
    for partition in topic.open_partitions():
        if not partition.log.needs_sync:
            continue
        if topic.policy.is_durable or partition.is_flush_due:
            sync_in_background(node, partition, partition.log)
        else:
            plan_flush(node, partition)

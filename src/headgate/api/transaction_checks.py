"""Before data or offsets of a transaction are written: is the partition part of the transaction?

A client of the first protocol has added the partition itself, which is verified here. A client of version 2
(KIP-890) has not: the partition is added here. Errors, Kafka's:

* A fenced producer has INVALID_PRODUCER_EPOCH, as its client expects at this place.
* A partition that was not added is TRANSACTION_ABORTABLE for clients that know it, else INVALID_TXN_STATE.
* While the last transaction is being completed, a partition cannot be added. That takes a few milliseconds,
  for which the coordinator lets it wait; only then the client gets CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any, Final

from headgate.api.contract import Node, RequestSteps
from headgate.api.shard_replies import reply_to
from headgate.api.transaction_messages import is_bad_id
from headgate.core.contract import Producer
from headgate.core.transactions.commands import AddPartitions, VerifiedPartitions, VerifyPartitions
from headgate.domain.errors import ErrorCode
from headgate.records.transactions import Partitions

WITH_EPOCH_BUMP: Final = 2

PartitionErrors = dict[tuple[str, int], ErrorCode]
"""Errors by topic and partition; none for a partition that may be written."""


class Check(Enum):
    """What is done, by the version of the request."""

    VERIFY = "verify"
    VERIFY_ABORTABLE = "verify; the client knows TRANSACTION_ABORTABLE"
    ADD = "add"


def check_partitions(
    node: Node, transactional_id: str, producer: Producer, partitions: Partitions, check: Check
) -> RequestSteps[PartitionErrors]:
    """Verify the partitions, or add them to the transaction; return the errors, in steps."""
    if not any(partitions.values()):
        return {}
    if is_bad_id(transactional_id):
        return _of_all(partitions, ErrorCode.INVALID_REQUEST)
    if check is Check.ADD:
        add = AddPartitions(transactional_id, producer, partitions, WITH_EPOCH_BUMP, is_patient=True)
        error: ErrorCode = yield from _asked(node, transactional_id, add)
        return _of_all(partitions, error)
    verify = VerifyPartitions(transactional_id, producer, partitions)
    result = yield from _asked(node, transactional_id, verify)
    if not isinstance(result, VerifiedPartitions):
        return _of_all(partitions, result)
    if result.error != ErrorCode.NONE:
        return _of_all(partitions, result.error)
    knows_abortable = check is Check.VERIFY_ABORTABLE
    return dict.fromkeys(
        result.missing, ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE
    )


def _asked(node: Node, transactional_id: str, command: AddPartitions | VerifyPartitions) -> RequestSteps[Any]:
    return (yield from reply_to(partial(node.transactions.submit, transactional_id, command)))


def _of_all(partitions: Partitions, error: ErrorCode) -> PartitionErrors:
    if error == ErrorCode.NONE:
        return {}
    if error == ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return {(topic, index): error for topic, indexes in partitions.items() for index in indexes}

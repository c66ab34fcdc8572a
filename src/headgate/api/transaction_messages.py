"""What the APIs of transactions share: checks of requests, and commands to the transaction coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headgate.api.contract import Node
from headgate.api.group_answers import is_too_long
from headgate.core.transactions.commands import PRODUCER_ID_NEEDED, DecideTransaction, InitProducerId
from headgate.domain.errors import ErrorCode
from headgate.topics.refusal import Refusal

FENCED_SINCE = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn with the error PRODUCER_FENCED."""


def is_bad_id(transactional_id: str | None) -> bool:
    """Return whether no transaction can have this id: it is empty, or too long for a record."""
    return not transactional_id or is_too_long(transactional_id)


def fencing_error(error: ErrorCode, version: int, since: int = FENCED_SINCE) -> ErrorCode:
    """Return the error in the words of a version; before `since` a fenced producer has an invalid epoch."""
    if error == ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def submit_with_producer_id(
    node: Node, command: InitProducerId | DecideTransaction, on_reply: Callable[[Any], None]
) -> None:
    """Submit a command to the shard of its transactional id, with a new producer id if the shard needs one.

    `on_reply` gets a `ProducerAnswer`, or an ErrorCode if the shard or the catalogue cannot answer.
    """

    def replied(result: Any) -> None:
        if result is not PRODUCER_ID_NEEDED:
            on_reply(result)
            return
        producer_id = node.topics.new_producer_id(node.system_time())
        if isinstance(producer_id, Refusal):
            # A storage error would be fatal to the producer; this one is retriable.
            on_reply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        again = replace(command, new_producer_id=producer_id)
        node.transactions.submit(command.transactional_id, again, replied)

    node.transactions.submit(command.transactional_id, command, replied)

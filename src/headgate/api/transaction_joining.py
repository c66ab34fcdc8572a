"""Before offsets are committed in a transaction: is the group's partition part of the transaction?

The same question as in `transaction_checks`, but the answer is passed on in the callback of the coordinator's
reply, and not some iterations of the loop later. A marker that ends the transaction is decided after that
reply, and so it reaches the group's shard after the commit. Otherwise the commit of a producer that was
fenced meanwhile could come last, and remain pending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.api.contract import Node
from headgate.api.transaction_checks import WITH_EPOCH_BUMP, Check
from headgate.api.transaction_messages import is_bad_id
from headgate.core.contract import Producer
from headgate.core.transactions.commands import AddPartitions, VerifiedPartitions, VerifyPartitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of the transaction coordinator. The client asked the group coordinator, and must not leave it."""
OnError = Callable[[ErrorCode], None]


class JoinTransaction:
    """One question for one partition of `__consumer_offsets`; `on_error` gets NONE if it may be written."""

    __slots__ = ("_check", "_id", "_index", "_node", "_on_error", "_producer")

    def __init__(
        self,
        node: Node,
        transactional_id: str,
        producer: Producer,
        index: int,
        check: Check,
        on_error: OnError,
    ) -> None:
        self._node = node
        self._id = transactional_id
        self._producer = producer
        self._index = index
        self._check = check
        self._on_error = on_error

    def ask(self) -> None:
        """Ask the coordinator."""
        if is_bad_id(self._id):
            self._tell(ErrorCode.INVALID_REQUEST)
            return
        partitions = {GROUP_OFFSETS_TOPIC: frozenset({self._index})}
        if self._check is Check.ADD:
            add = AddPartitions(self._id, self._producer, partitions, WITH_EPOCH_BUMP, is_patient=True)
            self._node.transactions.submit(self._id, add, self._tell)
        else:
            verify = VerifyPartitions(self._id, self._producer, partitions)
            self._node.transactions.submit(self._id, verify, self._verified)

    def _verified(self, result: Any) -> None:
        if not isinstance(result, VerifiedPartitions):
            self._tell(result)
        elif result.error or not result.missing:
            self._tell(result.error)
        elif self._check is Check.VERIFY_ABORTABLE:
            self._tell(ErrorCode.TRANSACTION_ABORTABLE)
        else:
            self._tell(ErrorCode.INVALID_TXN_STATE)

    def _tell(self, error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        is_busy = error is ErrorCode.CONCURRENT_TRANSACTIONS and self._check is not Check.ADD
        if is_busy or error in _TRY_AGAIN:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._on_error(error)

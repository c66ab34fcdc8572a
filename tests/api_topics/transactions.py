"""The transaction coordinator of a test's node: one shard, whose records are applied and answered at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.core.contract import Token
from headgate.core.transactions.commands import AwaitPrepared, MarkersWritten, PreparedTransactions
from headgate.core.transactions.shard import TransactionShard
from headgate.domain.ids import Millis
from headgate.domain.settings import Settings


class Transactions:
    """A `headgate.api.contract.Coordinator` of one shard."""

    shard_count = 1
    is_wary = False

    def __init__(self, settings: Settings, steady_time: Callable[[], Millis]) -> None:
        self.shard = TransactionShard(settings)
        self.shard.loaded(steady_time())
        self._steady_time = steady_time
        self._waiting: dict[Token, Callable[[Any], None]] = {}

    def partition_of(self, key: str) -> int:
        """Return the only shard."""
        return 0

    def submit(self, key: str, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Decide, apply and answer a command."""
        self.submit_to(0, command, on_reply)

    def submit_to(self, shard: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Decide, apply and answer a command."""
        token = len(self._waiting) + 1
        self._waiting[token] = on_reply
        effects = self.shard.handle(command, self._steady_time(), token)
        for record in effects.records:
            self.shard.apply(record, 0)
        for reply in effects.replies:
            self._waiting[reply.token](reply.result)

    def complete(self) -> None:
        """Complete the prepared transactions, as if their markers were written."""
        self.submit_to(0, AwaitPrepared(), self._complete_each)

    def _complete_each(self, told: PreparedTransactions) -> None:
        for one in told.transactions:
            written = MarkersWritten(one.transactional_id, one.end.producer, one.start_timestamp)
            self.submit_to(0, written, lambda error: None)

"""The writer of markers: it carries prepared transactions through.

A shard of the transaction coordinator decides the outcome of a transaction (`core/transactions`). When the
decision is durable, the shard answers the writer's `AwaitPrepared` with it. The writer writes a marker to
each partition of the transaction, waits until all of them are durable, and submits `MarkersWritten`, which
completes the transaction. Rules:

1. What was decided is carried through: a marker that cannot be written is tried again, with pauses, for as
   long as the partition exists. Markers of a deleted topic are skipped, and so are those that a partition
   refuses because it knows a newer epoch of the producer.
2. A transactional id has one transaction in hand at a time. Its next one may have the same epoch, so that a
   second marker of the last one would end it.
3. After a crash the shards tell of their prepared transactions again. All of them are carried through before
   the listener opens; one whose partition fails does not hold up the start.
4. A transaction that waits for its next attempt does not keep others from being taken in hand.
5. Markers are written in slices of the loop's time, and logs are opened in threads (`request_work`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from headgate.api.contract import Node, RequestSteps
from headgate.api.transaction_markers import write_marker
from headgate.core.transactions.commands import (
    AwaitPrepared,
    MarkersWritten,
    PreparedTransaction,
    PreparedTransactions,
)
from headgate.core.transactions.shard import TransactionShard
from headgate.core.transactions.states import PREPARED
from headgate.domain.errors import ErrorCode
from headgate.runtime.asking import NOW
from headgate.runtime.failures import Where, unexpected
from headgate.server.coordinator import Coordinator
from headgate.server.request_work import RequestWork

logger = logging.getLogger(__name__)

ASK_AGAIN_MS: Final = 100
"""Pause before a shard that failed is asked again."""
FIRST_RETRY_MS: Final = 100
LONGEST_RETRY_MS: Final = 10_000
MOST_IN_HAND: Final = 1_000
"""Transactions in hand, of all shards, above which no shard is asked for more; those that wait for their next
attempt do not count.
"""

_NO_MARKER_NEEDED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class MarkerWriter:
    """Writes the markers of all prepared transactions of a node."""

    def __init__(
        self, node: Node, coordinator: Coordinator[TransactionShard], request_work: RequestWork
    ) -> None:
        self._node = node
        self._coordinator = coordinator
        self._work = request_work
        self.ended = {True: 0, False: 0}
        """Number of transactions carried through, by whether they were committed."""
        self._in_hand: dict[str, _Transaction] = {}
        self._pausing = 0
        """Number of them that wait for their next attempt."""
        self._unasked: deque[int] = deque()
        """Shards that are asked when there is room."""
        self._unsettled: set[str] = set()
        """Ids prepared at the start, until they are complete or failed once."""
        self._settled = asyncio.Event()
        self._is_closed = False

    async def start(self) -> None:
        """Carry through what an earlier run of the server prepared, and begin to wait for more."""
        self._unsettled = {
            one.transactional_id
            for shard in self._coordinator.shards()
            for one in shard.by_id.values()
            if one.state in PREPARED
        }
        for shard in range(self._coordinator.shard_count):
            self._ask(shard)
        if self._unsettled:
            logger.info("transactions are carried through", extra={"transactions": len(self._unsettled)})
            await self._settled.wait()

    def close(self) -> None:
        """Stop. What is not complete is carried through at the next start."""
        self._is_closed = True

    # --- asking the shards ---

    def _ask(self, shard: int) -> None:
        """Wait for the next prepared transactions of a shard."""
        if self._is_closed:
            return
        if not self._has_room:
            self._unasked.append(shard)
            return
        before, NOW.asker = NOW.asker, None
        self._coordinator.submit_to(shard, AwaitPrepared(), partial(self._told, shard))
        NOW.asker = before

    @property
    def _has_room(self) -> bool:
        return len(self._in_hand) - self._pausing < MOST_IN_HAND

    def _ask_unasked(self) -> None:
        while self._unasked and self._has_room:
            self._ask(self._unasked.popleft())

    def _told(self, shard: int, told: PreparedTransactions | ErrorCode) -> None:
        if isinstance(told, ErrorCode):
            self._later(ASK_AGAIN_MS, partial(self._ask, shard))
            return
        for prepared in told.transactions:
            self._take(prepared)
        self._node.soon(partial(self._ask, shard))

    def _take(self, prepared: PreparedTransaction) -> None:
        """Begin to write markers, unless this transaction is in hand already."""
        before = self._in_hand.get(prepared.transactional_id)
        if before is None:
            self._begin(prepared)
        elif before.prepared != prepared:
            before.next = prepared

    def _begin(self, prepared: PreparedTransaction) -> None:
        transaction = _Transaction(self, prepared)
        self._in_hand[prepared.transactional_id] = transaction
        self.write(transaction)

    # --- markers ---

    def write(self, transaction: _Transaction) -> None:
        """Write the missing markers of a transaction."""
        if self._is_closed:
            return
        attempt = transaction.begin_attempt()
        steps = transaction.write(self._node, self._coordinator_epoch, attempt)
        ended = partial(transaction.one_less, attempt)
        self._work.run(steps, transaction, ended, partial(transaction.failed, attempt))

    @property
    def _coordinator_epoch(self) -> int:
        return self._node.topics.leader_epoch

    def try_again(self, transaction: _Transaction, action: Callable[[], None]) -> None:
        """Do this after a pause, which is longer each time."""
        self._settle(transaction.prepared.transactional_id)
        if transaction.is_pausing or self._is_closed:
            return
        transaction.is_pausing = True
        self._pausing += 1
        self._ask_unasked()
        self._later(transaction.next_pause_ms(), partial(self._go_on, transaction, action))

    def _go_on(self, transaction: _Transaction, action: Callable[[], None]) -> None:
        transaction.is_pausing = False
        self._pausing -= 1
        if self._is_in_hand(transaction):
            action()

    def _is_in_hand(self, transaction: _Transaction) -> bool:
        return self._in_hand.get(transaction.prepared.transactional_id) is transaction

    def complete(self, transaction: _Transaction) -> None:
        """Tell the shard that all markers are durable."""
        if self._is_closed:
            return
        prepared = transaction.prepared
        before, NOW.asker = NOW.asker, transaction
        command = MarkersWritten(prepared.transactional_id, prepared.end.producer, prepared.start_timestamp)
        self._coordinator.submit(prepared.transactional_id, command, partial(self._completed, transaction))
        NOW.asker = before

    def _completed(self, transaction: _Transaction, error: ErrorCode) -> None:
        """Go on to the next transaction of the id; INVALID_TXN_STATE tells that this one was complete."""
        if not self._is_in_hand(transaction):
            return
        if error not in (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE):
            self.try_again(transaction, partial(self.complete, transaction))
            return
        self.ended[transaction.prepared.end.is_committed] += 1
        del self._in_hand[transaction.prepared.transactional_id]
        self._settle(transaction.prepared.transactional_id)
        if transaction.next is not None:
            self._begin(transaction.next)
        self._ask_unasked()

    def _settle(self, transactional_id: str) -> None:
        self._unsettled.discard(transactional_id)
        if not self._unsettled:
            self._settled.set()

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        if not self._is_closed:
            self._node.call_later(delay_ms, action)


class _Transaction:
    """One transaction in hand: the partitions whose markers are missing.

    It is the `Step` and the `Asker` of its own work: if a callback fails, it is tried again.
    """

    __slots__ = (
        "_attempt",
        "_left",
        "_pause_ms",
        "_pending",
        "_refused",
        "_writer",
        "is_pausing",
        "next",
        "prepared",
    )

    step_name = "markers"
    step_client: str | None = None
    is_many = False

    def __init__(self, writer: MarkerWriter, prepared: PreparedTransaction) -> None:
        self._writer = writer
        self.prepared = prepared
        self.next: PreparedTransaction | None = None
        """The next transaction of the same id, which was prepared before this one was told to be complete."""
        self.is_pausing = False
        """Whether it waits for its next attempt."""
        self._attempt = 0
        """Number of the attempt; what remains of an earlier one that failed has no effect."""
        self._left: dict[tuple[str, int], None] | None = None
        """Partitions whose marker is not durable; None before the first attempt."""
        self._pending = 0
        """Number of events that this attempt waits for."""
        self._refused: dict[ErrorCode, list[tuple[str, int]]] = {}
        """Partitions of this attempt without a marker, by error."""
        self._pause_ms = FIRST_RETRY_MS

    def next_pause_ms(self) -> int:
        """Return the length of the next pause, and double it."""
        pause_ms = self._pause_ms
        self._pause_ms = min(2 * pause_ms, LONGEST_RETRY_MS)
        return pause_ms

    def begin_attempt(self) -> int:
        """Begin to count the events of a new attempt; return its number."""
        self._attempt += 1
        self._pending = 1
        self._refused = {}
        return self._attempt

    def write(self, node: Node, coordinator_epoch: int, attempt: int) -> RequestSteps[None]:
        """Write the markers that are missing."""
        end = self.prepared.end._replace(coordinator_epoch=coordinator_epoch)
        if self._left is None:
            left: dict[tuple[str, int], None] = {}
            for place in self._partitions():
                left[place] = None
                yield None
            if attempt != self._attempt:
                return
            self._left = left
        for topic, index in list(self._left):
            yield None
            if attempt != self._attempt:
                return
            self._pending += 1
            on_written = partial(self._written, attempt, (topic, index))
            version = self.prepared.transaction_version
            yield from write_marker(node, topic, index, end, version, on_written, is_of_this_node=True)

    def _partitions(self) -> Iterator[tuple[str, int]]:
        for topic, indexes in sorted(self.prepared.partitions.items()):
            for index in sorted(indexes):
                yield topic, index

    def _written(self, attempt: int, partition: tuple[str, int], error: ErrorCode) -> None:
        if attempt != self._attempt or self._left is None:
            return
        if error in _NO_MARKER_NEEDED:
            self._left.pop(partition, None)
        if error != ErrorCode.NONE:
            self._refused.setdefault(error, []).append(partition)
        self.one_less(attempt)

    def _report(self) -> None:
        """Log one line for each error of the attempt, however many partitions have it."""
        refused, self._refused = self._refused, {}
        for error, partitions in refused.items():
            topic, index = partitions[0]
            logger.warning(
                "transaction markers were not written",
                extra={
                    "transactional_id": self.prepared.transactional_id,
                    "partitions": len(partitions),
                    "first": f"{topic}-{index}",
                    "error": error.name,
                    "then": "not needed" if error in _NO_MARKER_NEEDED else "tried again",
                },
            )

    def one_less(self, attempt: int, nothing: None = None) -> None:
        """Count down the events of an attempt; complete the transaction after the last, or try again."""
        if attempt != self._attempt:
            return
        self._pending -= 1
        if self._pending:
            return
        self._report()
        if self._left:
            self._writer.try_again(self, partial(self._writer.write, self))
        else:
            self._writer.complete(self)

    def failed(self, attempt: int, failure: Exception) -> None:
        """Try again after an attempt that raised: all markers, which may be repeated."""
        unexpected(Where.LOOP, "markers cannot be written", failure)
        if attempt != self._attempt:
            return
        self._attempt += 1
        self._left = None
        self._writer.try_again(self, partial(self._writer.write, self))

    def ask_each(self) -> None:
        """Do nothing: this is one request."""

    def give_up(self) -> None:
        """Try again, because the outcome of a marker could not be taken."""
        self._writer.try_again(self, partial(self._writer.write, self))

"""Transactional commits: decided, kept until the end of their transaction, and moved to the offset table.

A commit is checked like any commit of its group, with the differences that the group's kind makes for
`CommitOffsets.is_transactional`. Its records are transactional: `apply` keeps them as pending offsets, and
`end` makes them committed offsets or drops them. A group whose only offset is pending is known, as in Kafka,
and remains known after an abort, until a sweep finds nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from headgate.core.contract import Effects, Producer, Reply, Token, TransactionEnd
from headgate.core.effects import GroupEffects, answer
from headgate.core.offsets.commands import (
    CommitResult,
    CommitTransactionalOffsets,
    EndTransaction,
    FetchedInSteps,
    FetchedOffsets,
    FetchOffsets,
)
from headgate.core.offsets.commit import commit
from headgate.core.offsets.fetch_steps import with_unstable
from headgate.core.offsets.pending import PendingOffset, PendingOffsets
from headgate.core.offsets.pending_holders import Place
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName
from headgate.records import Change, OffsetCommit
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows

_FEWEST_IN_COLUMNS: Final = 64
"""Fewer offsets of a place are moved one by one, which is as fast."""


class OffsetTransactions:
    """The open transactions of one shard's offsets."""

    __slots__ = ("_table", "pending")

    def __init__(self, table: OffsetTable) -> None:
        self._table = table
        self.pending = PendingOffsets()

    # --- commands ---

    def producer_error(self, producer: Producer) -> ErrorCode:
        """Return INVALID_PRODUCER_EPOCH for an older epoch than the producer's pending offsets have."""
        epoch = self.pending.epoch_of(producer.producer_id)
        if epoch is not None and producer.epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    def commit(
        self,
        command: CommitTransactionalOffsets,
        error: ErrorCode,
        now: Millis,
        metadata_limit: int,
        token: Token,
    ) -> GroupEffects:
        """Record the offsets as part of the transaction, unless there is an error."""
        if error:
            return answer(token, CommitResult(error))
        effects = commit(command.asked, now, metadata_limit, token)
        if effects.records:
            effects.transaction = command.producer
        return effects

    def decide_end(self, command: EndTransaction, now: Millis, token: Token) -> GroupEffects:
        """End the transaction with a marker in the log."""
        error = self.producer_error(command.end.producer)
        if error:
            return answer(token, error)
        return Effects((), (Reply(token, ErrorCode.NONE),), command.end)

    # --- records ---

    def apply(self, change: Change, position: int, producer: Producer) -> None:
        """Keep the offsets of a record in a transaction until it ends."""
        for group_id in self.pending.put(change, position, producer):
            self._table.know_group(group_id)

    def applying(self, change: Change, position: int, producer: Producer) -> Iterator[None]:
        """Do the same in steps."""
        for group_ids in self.pending.putting(change, position, producer):
            for group_id in group_ids:
                self._table.know_group(group_id)
            yield

    def ending(self, end: TransactionEnd, position: int) -> Iterator[None]:
        """Make the pending offsets of a producer committed offsets, or drop them, in steps.

        Only the producer id counts, as in Kafka: a marker may have a higher epoch than the offsets.
        """
        self._table.changed()
        ended = self.pending.ending(end.producer.producer_id, position, is_committed=end.is_committed)
        for place, values in ended:
            self._move(place, values)
            yield

    def _move(self, place: Place, values: Mapping[int, PendingOffset]) -> None:
        if len(values) < _FEWEST_IN_COLUMNS or any(
            one.expire_timestamp != NO_EXPIRY for one in values.values()
        ):
            for partition, one in values.items():
                self._table.put(_committed(place, partition, one))
        else:
            self._table.put_rows(_rows(place, values))

    # --- fetches ---

    def mark(
        self, command: FetchOffsets, found: FetchedOffsets | FetchedInSteps
    ) -> FetchedOffsets | FetchedInSteps:
        """Note in the result of a fetch of stable offsets which partitions have none now."""
        unstable = self._unstable(command)
        if isinstance(found, FetchedInSteps):
            return FetchedInSteps(with_unstable(found.steps, unstable)) if unstable else found
        found.unstable = unstable
        return found

    def _unstable(self, command: FetchOffsets) -> dict[TopicName, set[int]]:
        """Return the partitions without a stable offset among those that a fetch asks for."""
        group_id, pending = command.group_id, self.pending
        if command.topics is None:
            return pending.of_group(group_id)
        unstable: dict[TopicName, set[int]] = {}
        for topic, partitions in command.topics:
            found = pending.among(group_id, topic, _listed(partitions))
            if found:
                unstable[topic] = unstable.get(topic, set()) | found
        return unstable


def _listed(partitions: Sequence[int] | Int64s) -> Sequence[int]:
    return partitions.tolist() if isinstance(partitions, np.ndarray) else partitions


def _committed(place: Place, partition: int, one: PendingOffset) -> OffsetCommit:
    return OffsetCommit(
        *place,
        partition,
        one.offset,
        one.leader_epoch,
        one.metadata,
        one.commit_timestamp,
        one.expire_timestamp,
    )


def _rows(place: Place, values: Mapping[int, PendingOffset]) -> OffsetRows:
    """Return many offsets of one group and topic as one value."""
    count = len(values)
    _, offsets, epochs, texts, timestamps, _ = zip(*values.values(), strict=True)
    return OffsetRows(
        [key_prefix(*place)],
        np.zeros(count, np.int64),
        np.fromiter(values, np.int64, count),
        np.array(offsets, np.int64),
        np.array(epochs, np.int32),
        np.array(timestamps, np.int64),
        np.zeros(count, np.bool_),
        {row: text for row, text in enumerate(texts) if text},
    )

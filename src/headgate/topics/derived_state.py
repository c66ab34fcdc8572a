"""The state derived from a partition's log: leader epochs, transactions, and the state of producers.

Epochs and producers have a small file beside the segments (`partition_files`). Producers and transactions are
loaded when the log is opened, from their snapshot and the records after it, and again when they are needed
after a recovery. Epoch 0 needs no file: a log without the file has epoch 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.batch import BatchHeader, CorruptBatch
from headgate.log.header import Buffer
from headgate.log.log import Log
from headgate.topics.awaited_batches import AwaitedBatches
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.log_opening import Opened
from headgate.topics.partition_files import (
    discard_snapshot_beyond,
    load_producers,
    load_snapshot,
    save_leader_epochs,
    save_snapshot,
)
from headgate.topics.partition_topic import PartitionTopic
from headgate.topics.producers import Producers, ProducerState, RememberedBatch
from headgate.topics.snapshot import Snapshot, snapshot_of
from headgate.topics.transaction_loading import load_transactions
from headgate.topics.transactions import OpenTransaction, TransactionMarker, Transactions, Verification

logger = logging.getLogger(__name__)

ActiveProducer = tuple[int, ProducerState, int]
"""A producer id, its state, and the first offset of its open transaction or -1."""

_SNAPSHOT_EVERY_BYTES = 16 * 1024 * 1024
"""Maximum size of the log after the last snapshot, which must be read again for the producers' state."""
_LAST_EPOCH = (1 << 15) - 1


class DerivedState:
    """Leader epochs and producers of the partition of `topic` at `index`."""

    __slots__ = (
        "_epochs_are_saved",
        "_generation",
        "_index",
        "_producers",
        "_snapshot_end",
        "_topic",
        "_transactions",
        "appended_bytes",
        "awaited",
        "epochs",
        "snapshot_at_bytes",
    )

    def __init__(self, topic: PartitionTopic, index: int) -> None:
        self._topic = topic
        self._index = index
        self.epochs = LeaderEpochs()
        self._epochs_are_saved = True
        self._producers: Producers | None = None
        self.awaited = AwaitedBatches()
        self._transactions = Transactions()
        self._generation = -1
        """The generation of the log (`Log.generation`) from which the transactions were derived."""
        self.appended_bytes = 0
        """Bytes appended since the log was opened."""
        self.snapshot_at_bytes = _SNAPSHOT_EVERY_BYTES
        self._snapshot_end = 0
        """The end of the log at the last snapshot since the log was opened."""

    def opened(self, opened: Opened) -> None:
        """Use the state of a log that was opened."""
        log, self.epochs, self._transactions, producers = opened
        self.forget_producers()
        producers.count_with(self._topic.shared.producers)
        self._producers = producers
        self._generation = log.generation
        self._tell_open_transactions()
        self._begin_epoch(log.log_end_offset)

    def truncated(self, end_offset: int) -> None:
        """Discard the state of the truncated part of the log."""
        self._snapshot_end = 0
        self._await_after(end_offset)
        self.forget_producers()
        self.epochs.truncate(end_offset)
        self._begin_epoch(end_offset)
        discard_snapshot_beyond(self._topic.shared.fs, self._topic.directory_of(self._index), end_offset)

    def _await_after(self, end_offset: int) -> None:
        """Note which batches of producers are no longer in the log, which ends there."""
        if self._producers is not None:
            self.awaited.truncated(self._producers, end_offset)

    def _begin_epoch(self, offset: int) -> None:
        leader_epoch = self._topic.leader_epoch
        self._epochs_are_saved = not self.epochs.begin(leader_epoch, offset) or leader_epoch == 0

    # --- appending ---

    def append_begins(self) -> None:
        """Make the leader epoch of the next batch durable. Raises OSError."""
        if not self._epochs_are_saved:
            save_leader_epochs(self._topic.shared.fs, self._topic.directory_of(self._index), self.epochs)
            self._epochs_are_saved = True

    def appended(
        self,
        log: Log,
        headers: Sequence[BatchHeader],
        batches: Sequence[Buffer],
        size: int,
        now: Millis | None,
    ) -> None:
        """Note batches of together `size` bytes at the log's end, appended at `now`, if that is known."""
        self.appended_bytes += size
        for at, header in enumerate(headers):
            if header.producer_id >= 0:
                self._take(log, header, batches[at], now)

    def _take(self, log: Log, header: BatchHeader, batch: Buffer, now: Millis | None) -> None:
        """Note a producer's batch at the log's end."""
        if header.is_transactional and self._generation == log.generation:
            aborted = self._transactions.take(header, batch, now)
            if aborted is not None:
                log.segments.note_aborted(aborted)
            self._tell_open_transactions()
        if self._producers is not None:
            self._producers.take(header, batch)
        if len(self.awaited):
            self.awaited.taken(header.producer_id)

    # --- checks ---

    def check(
        self, log: Log, header: BatchHeader, verification: Verification, verified_at: int | None = None
    ) -> ErrorCode | RememberedBatch:
        """Check a producer's batch before its append: return NONE, an error, or the earlier batch that it
        repeats. `verified_at`: see `Partition.append`. Raises OSError, CorruptBatch.
        """
        producers = self.producers(log)
        verdict = producers.check(header)
        if len(self.awaited) and producers.get(header.producer_id) is None and self.awaited.is_ahead(header):
            verdict = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if isinstance(verdict, RememberedBatch) or verdict == ErrorCode.INVALID_PRODUCER_EPOCH:
            return verdict
        if not header.is_transactional:
            is_apart = header.producer_id not in self._transactions
            return verdict if is_apart or verdict != ErrorCode.NONE else ErrorCode.INVALID_TXN_STATE
        if not self._transactions.has(header):
            if verification is Verification.NONE:
                return ErrorCode.INVALID_TXN_STATE
            if verification is Verification.VERIFIED and verified_at is not None:
                known = producers.get(header.producer_id)
                if known is not None and known.marker_at >= verified_at:
                    return ErrorCode.INVALID_TXN_STATE
        if verification is Verification.VERIFIED_VERSION_2 and header.base_sequence:
            state = producers.get(header.producer_id)
            if state is None or not state.batches:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return verdict

    def check_marker(self, log: Log, marker: TransactionMarker) -> ErrorCode:
        """Check a marker before its append, as Kafka does. Raises OSError, CorruptBatch."""
        state = self.producers(log).get(marker.producer_id)
        if state is None:
            return ErrorCode.NONE
        is_older = marker.epoch < state.epoch
        if marker.transaction_version >= 2 and marker.epoch == state.epoch:
            # A marker may be repeated, and the last epoch of a producer id cannot be increased.
            is_older = marker.producer_id in self._transactions and marker.epoch < _LAST_EPOCH
        if is_older:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < state.coordinator_epoch and not marker.is_of_this_node:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def coordinator_epoch(self, log: Log, marker: TransactionMarker) -> int:
        """Return the coordinator's epoch for a checked marker, not before that of the last one."""
        state = self.producers(log).get(marker.producer_id)
        return (
            marker.coordinator_epoch
            if state is None
            else max(marker.coordinator_epoch, state.coordinator_epoch)
        )

    # --- transactions ---

    def _tell_open_transactions(self) -> None:
        """Keep the list of partitions with open transactions, for the metrics."""
        place = (self._topic.name, self._index)
        if len(self._transactions):
            self._topic.shared.in_transaction[place] = self._transactions
        else:
            self._topic.shared.in_transaction.pop(place, None)

    def given_up(self) -> None:
        """Forget all state: the topic is deleted."""
        self.forget_producers()
        self.awaited = AwaitedBatches()
        self._transactions = Transactions()
        self._tell_open_transactions()

    def transactions(self, log: Log) -> Transactions:
        """Return the transactions of the log; load them again after a recovery, or when a damaged batch among
        them was deleted. Raises OSError.
        """
        damaged_at = self._transactions.stable_until
        is_damage_gone = damaged_at is not None and damaged_at < log.log_start_offset
        if self._generation != log.generation or is_damage_gone:
            self._await_after(log.log_end_offset)
            self.forget_producers()
            self._transactions, _ = load_transactions(log, self._snapshot_of(log))
            self._generation = log.generation
            self._tell_open_transactions()
        return self._transactions

    # --- producers ---

    def producers(self, log: Log) -> Producers:
        """Return the state of the producers; load it if necessary. Raises OSError, CorruptBatch."""
        transactions = self.transactions(log)
        if self._producers is None:
            count = self._topic.shared.producers
            self._producers = load_producers(log, self._snapshot_of(log), count, transactions)
        return self._producers

    def active_producers(self, log: Log) -> list[ActiveProducer]:
        """Return the producers of the partition. Raises OSError, CorruptBatch."""
        open_of = {one.producer_id: one for one in self.transactions(log).all_open()}
        found = [
            _described(producer_id, state, open_of.pop(producer_id, None))
            for producer_id, state in self.producers(log).items()
        ]
        return found + [_described(producer_id, None, one) for producer_id, one in open_of.items()]

    def _snapshot_of(self, log: Log) -> Snapshot | None:
        return load_snapshot(self._topic.shared.fs, self._topic.directory_of(self._index), log)

    def forget_producers(self) -> None:
        """Drop the state of the producers."""
        if self._producers is not None:
            self._producers.clear()
            self._producers = None

    def expire_producers(self, before: Millis, now: Millis) -> None:
        """Remove the state of producers without an append since `before`, if it is loaded, and batches that
        are awaited since then.
        """
        if len(self.awaited):
            self.awaited.expire(before, now)
        if self._producers is not None:
            self._producers.expire(before)

    def save_snapshot(self, log: Log) -> None:
        """Write a snapshot now, if anything was appended. If that fails, the state is read from the log at
        the next start.
        """
        work = self._snapshot(log) if self.appended_bytes else None
        try:
            if work is not None:
                work()
        except OSError as problem:
            self._tell_not_kept(problem)

    def start_moved(self, log: Log) -> None:
        """Write a snapshot if records were deleted that alone tell the state of a producer: the next start,
        or a recovery, could not read it from the log.
        """
        producers = () if self._producers is None else self._producers.items()
        if any(one.is_told_in(self._snapshot_end, log.log_start_offset) for _, one in producers):
            self.save_snapshot_aside(log)

    def save_snapshot_aside(self, log: Log) -> None:
        """Take a snapshot now, and let another thread write it: ten thousand producers take a while."""
        work, generation = self._snapshot(log), log.generation

        def written(failure: BaseException | None) -> None:
            if self._topic.is_deleted:
                return
            if failure is not None:
                self._tell_not_kept(failure)
            if log.generation != generation:
                with suppress(OSError):  # a snapshot of what was truncated meanwhile
                    discard_snapshot_beyond(self._topic.shared.fs, self._directory, log.log_end_offset)

        if work is not None:
            self._topic.shared.run_aside(work, written)

    def _snapshot(self, log: Log) -> Callable[[], None] | None:
        """Return what writes the state as of now, in any thread; None if it cannot be kept. It raises
        OSError.
        """
        self.snapshot_at_bytes = self.appended_bytes + _SNAPSHOT_EVERY_BYTES
        try:
            producers, transactions = self.producers(log), self.transactions(log)
            if transactions.stable_until is not None:
                return None  # the next start should look at the damage again
            log.segments.save_aborted()
            snapshot, copied = snapshot_of(log, transactions), producers.copied()
        except (OSError, CorruptBatch) as problem:
            self._tell_not_kept(problem)
            return None
        self._snapshot_end = snapshot.end_offset
        return partial(save_snapshot, self._topic.shared.fs, self._directory, snapshot, copied)

    def _tell_not_kept(self, problem: BaseException) -> None:
        partition = f"{self._topic.name}-{self._index}"
        logger.warning(
            "the state of producers cannot be kept, the next start reads it from the log",
            extra={"partition": partition, "error": problem},
        )

    @property
    def _directory(self) -> Path:
        return self._topic.directory_of(self._index)


def _described(
    producer_id: int, state: ProducerState | None, transaction: OpenTransaction | None
) -> ActiveProducer:
    """Describe a producer, also one whose batches have no sequences, such as commits of offsets: only its
    transaction is known then, and the epoch of its last marker.
    """
    if transaction is None:
        assert state is not None
        return producer_id, state, -1
    if state is None or state.epoch < transaction.epoch:
        state = ProducerState(transaction.epoch, transaction.since)
    return producer_id, state, transaction.first_offset

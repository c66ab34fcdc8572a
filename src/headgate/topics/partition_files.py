"""The two small files beside a partition's segments. Both are derived from the log, which has precedence.

* `leader-epoch-checkpoint`, in Kafka's format, is durable before the first batch of a new epoch is written.
  Without the file, every batch is of epoch 0. A damaged file is rebuilt from the batches.
* `producers.snapshot` is the state of producers and transactions at a log end offset (`snapshot.py`), not
  synced. A damaged snapshot, and one beyond the log end offset, is removed: the log is read from its start.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from headgate.log.filesystem import FileSystem, read_file, replace_file, write_fully
from headgate.log.header import BatchHeader, CorruptBatch
from headgate.log.log import Log
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.producers import ProducerCopy, ProducerCount, Producers
from headgate.topics.snapshot import Snapshot, snapshot_of
from headgate.topics.transactions import Transactions

logger = logging.getLogger(__name__)

LEADER_EPOCHS_FILE = "leader-epoch-checkpoint"
PRODUCERS_FILE = "producers.snapshot"


def load_leader_epochs(fs: FileSystem, directory: Path, log: Log) -> LeaderEpochs:
    """Return the epochs of the log's batches. Raises OSError."""
    try:
        epochs = LeaderEpochs.decode(read_file(fs, directory / LEADER_EPOCHS_FILE))
    except FileNotFoundError:
        epochs = LeaderEpochs()
        if log.log_end_offset:
            epochs.begin(0, 0)
        return epochs if _agree(epochs, log) else _rebuilt(directory, log, "it is missing")
    if epochs is None:
        return _rebuilt(directory, log, "it is damaged")
    epochs.truncate(log.log_end_offset)
    if not _agree(epochs, log):
        return _rebuilt(directory, log, "it contradicts the log")
    return epochs


def _rebuilt(directory: Path, log: Log, why: str) -> LeaderEpochs:
    fields = {"path": directory / LEADER_EPOCHS_FILE, "reason": why}
    logger.warning("a file was rebuilt from the log", extra=fields)
    epochs = LeaderEpochs()
    try:
        for header, _ in log.batches(log.log_start_offset):
            epochs.begin(header.leader_epoch, header.base_offset)
    except CorruptBatch as damage:
        fields = {"log": directory, "error": damage}
        logger.warning("epochs that begin behind damaged records are unknown", extra=fields)
        last = _batch_with(log, log.log_end_offset - 1)
        if last is not None:
            epochs.begin(last.leader_epoch, last.base_offset)
    return epochs


def _agree(epochs: LeaderEpochs, log: Log) -> bool:
    """Return whether the first and last batch, and the first batch of each epoch, have these epochs."""
    start, end = log.log_start_offset, log.log_end_offset
    for offset in {start, end - 1} if start < end else ():
        header = _batch_with(log, offset)
        if header is not None and epochs.epoch_of(header.base_offset) != header.leader_epoch:
            return False
    for epoch, begin in epochs.starts():
        if begin <= max(start, log.compacted_to):
            continue  # the first batch, or the one before it, may be removed
        first, before = _batch_with(log, begin), _batch_with(log, begin - 1)
        if first is None or first.base_offset != begin or first.leader_epoch != epoch:
            return False
        if before is not None and before.leader_epoch >= epoch:
            return False
    return True


def _batch_with(log: Log, offset: int) -> BatchHeader | None:
    """Return the header of the batch with an offset, or of the next one; None if it cannot be read."""
    try:
        return log.header_of(offset)
    except CorruptBatch:
        return None


def save_leader_epochs(fs: FileSystem, directory: Path, epochs: LeaderEpochs) -> None:
    """Make the epochs durable, and the directory too if it is new. Raises OSError."""
    fs.make_directory(directory)
    replace_file(fs, directory / LEADER_EPOCHS_FILE, epochs.encode())


def load_producers(
    log: Log, snapshot: Snapshot | None, count: ProducerCount, in_transaction: Container[int]
) -> Producers:
    """Return the producers' state at the end of the log, from all readable segments. Raises OSError."""
    producers = None if snapshot is None else snapshot.restored_producers(count, in_transaction)
    if snapshot is not None and producers is not None and not _are_of(snapshot, producers, log):
        producers.clear()
        producers = None
    if snapshot is None or producers is None:
        producers, read_from = Producers(count, in_transaction), log.log_start_offset
    else:
        read_from = max(snapshot.end_offset, log.log_start_offset)
    for segment in log.segments.reaching(read_from):
        try:
            for header, batch in log.batches(max(read_from, segment.base_offset), segment.next_offset):
                producers.take(header, batch)
        except CorruptBatch:
            continue  # readers get the error; producers of damaged batches start anew
    return producers


def _are_of(snapshot: Snapshot, producers: Producers, log: Log) -> bool:
    """Return whether these are producers of the log. Where the batch before the snapshot's end was compacted,
    the log must have the newest batch of the producers, which compaction keeps.
    """
    if snapshot.is_of(log):
        return True
    newest = max(
        ((state.batches[-1].last_offset, key) for key, state in producers.items() if state.batches),
        default=None,
    )
    if snapshot.end_offset > log.compacted_to or newest is None:
        return snapshot.end_offset <= log.compacted_to
    header = _batch_with(log, newest[0])
    return header is not None and (header.last_offset, header.producer_id) == newest


def load_snapshot(fs: FileSystem, directory: Path, log: Log) -> Snapshot | None:
    """Return the snapshot; None if there is none, or one beyond the log's end. Raises OSError."""
    snapshot = _read_snapshot(fs, directory)
    return snapshot if snapshot is not None and snapshot.end_offset <= log.log_end_offset else None


def save_snapshot(
    fs: FileSystem, directory: Path, snapshot: Snapshot, producers: Iterable[ProducerCopy]
) -> None:
    """Write a snapshot with these producers, in any thread; it is not synced. Raises OSError."""
    data = snapshot.with_producers(producers).encode()
    path = directory / PRODUCERS_FILE
    aside = path.with_name(PRODUCERS_FILE + ".tmp")
    file = fs.open(aside, create=True)
    try:
        file.truncate(0)
        write_fully(file, data, 0)
    finally:
        file.close()
    fs.rename(aside, path)


def save_derived(
    fs: FileSystem, directory: Path, log: Log, transactions: Transactions, producers: Producers
) -> None:
    """Write a snapshot of a log that was read without one, if the disk allows it."""
    if transactions.stable_until is None:
        with suppress(OSError):
            log.segments.save_aborted()
            save_snapshot(fs, directory, snapshot_of(log, transactions), producers.copied())


def discard_snapshot_beyond(fs: FileSystem, directory: Path, end_offset: int) -> None:
    """Remove a snapshot beyond the log end offset, durably. Raises OSError.

    It must be removed before the log grows past its offset again with other records.
    """
    try:
        snapshot = _read_snapshot(fs, directory)
        if snapshot is None or snapshot.end_offset > end_offset:
            fs.remove(directory / PRODUCERS_FILE)
            fs.sync_directory(directory)
    except FileNotFoundError:
        pass


def _read_snapshot(fs: FileSystem, directory: Path) -> Snapshot | None:
    try:
        return Snapshot.decode(read_file(fs, directory / PRODUCERS_FILE))
    except FileNotFoundError:
        return None

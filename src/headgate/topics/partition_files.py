"""The two small files beside a partition's segments. Both are derived from the log, which has precedence.

* `leader-epoch-checkpoint`, in Kafka's format, is durable before the first batch of a new epoch is written.
  Without the file, every batch is of epoch 0. A damaged file is rebuilt from the batches.
* `producers.snapshot` is the producers' state at a log end offset, with a checksum, not synced. A damaged
  snapshot, and one beyond the log end offset, is ignored: the log is read from its start.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from pathlib import Path

from headgate.log.filesystem import FileSystem, read_file, replace_file, write_fully
from headgate.log.header import BatchHeader, CorruptBatch
from headgate.log.log import Log
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.producers import ProducerCount, Producers

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
    logger.warning("%s was rebuilt from the log: %s", directory / LEADER_EPOCHS_FILE, why)
    epochs = LeaderEpochs()
    for header, _ in log.batches(log.log_start_offset):
        epochs.begin(header.leader_epoch, header.base_offset)
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
    fs: FileSystem, directory: Path, log: Log, count: ProducerCount, in_transaction: Container[int]
) -> Producers:
    """Return the producers' state at the end of the log, from all readable segments. Raises OSError."""
    decoded = _read_snapshot(fs, directory, count, in_transaction)
    if decoded is None or decoded[1] > log.log_end_offset or not _is_of(decoded[0], log):
        if decoded is not None:
            decoded[0].clear()
        producers, read_from = Producers(count, in_transaction), log.log_start_offset
    else:
        producers, read_from = decoded[0], max(decoded[1], log.log_start_offset)
    for segment in log.segments.reaching(read_from):
        try:
            for header, batch in log.batches(max(read_from, segment.base_offset), segment.next_offset):
                producers.take(header, batch)
        except CorruptBatch:
            continue  # readers get the error; producers of damaged batches start anew
    return producers


def _is_of(producers: Producers, log: Log) -> bool:
    """Return whether the log has the newest batch of the snapshot; another partition's log does not."""
    newest = max(
        ((state.batches[-1].last_offset, key) for key, state in producers.items() if state.batches),
        default=None,
    )
    if newest is None or newest[0] < log.log_start_offset:
        return True
    header = _batch_with(log, newest[0])
    return header is not None and (header.last_offset, header.producer_id) == newest


def save_producers(fs: FileSystem, directory: Path, producers: Producers, end_offset: int) -> None:
    """Write a snapshot of the state at `end_offset`. Raises OSError."""
    path = directory / PRODUCERS_FILE
    aside = path.with_name(PRODUCERS_FILE + ".tmp")
    data = producers.encode(end_offset)
    file = fs.open(aside, create=True)
    try:
        file.truncate(0)
        write_fully(file, data, 0)
    finally:
        file.close()
    fs.rename(aside, path)


def discard_producers_beyond(fs: FileSystem, directory: Path, end_offset: int) -> None:
    """Remove a snapshot beyond the log end offset, durably. Raises OSError.

    It must be removed before the log grows past its offset again with other records.
    """
    try:
        decoded = _read_snapshot(fs, directory)
        if decoded is None or decoded[1] > end_offset:
            fs.remove(directory / PRODUCERS_FILE)
            fs.sync_directory(directory)
    except FileNotFoundError:
        pass


def _read_snapshot(
    fs: FileSystem,
    directory: Path,
    count: ProducerCount | None = None,
    in_transaction: Container[int] = (),
) -> tuple[Producers, int] | None:
    try:
        return Producers.decode(read_file(fs, directory / PRODUCERS_FILE), count, in_transaction)
    except FileNotFoundError:
        return None

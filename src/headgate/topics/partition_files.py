"""The two small files beside a partition's segments. Both are derived from the log, which is always right.

* `leader-epoch-checkpoint`, in Kafka's format, is durable before the first batch of a new epoch is written;
  without the file every batch was written in epoch 0. A file that does not read is built again from the
  batches.
* `producers.snapshot` is the producers' state at some log end offset, checksummed and not synced. One that
  does not read, or stands for more log than there is, counts for nothing: the log is read from its start.
"""

from __future__ import annotations

import logging
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
    """The epochs of the log's batches. Raises OSError."""
    try:
        epochs = LeaderEpochs.decode(read_file(fs, directory / LEADER_EPOCHS_FILE))
    except FileNotFoundError:
        epochs = LeaderEpochs()
        if log.log_end_offset:
            epochs.begin(0, 0)
        return epochs if _agree(epochs, log) else _built_again(directory, log, "it is missing")
    if epochs is None:
        return _built_again(directory, log, "it does not read")
    epochs.truncate(log.log_end_offset)
    if not _agree(epochs, log):
        return _built_again(directory, log, "the log says otherwise")
    return epochs


def _built_again(directory: Path, log: Log, why: str) -> LeaderEpochs:
    logger.warning("%s is built again from the log: %s", directory / LEADER_EPOCHS_FILE, why)
    epochs = LeaderEpochs()
    for header, _ in log.batches(log.log_start_offset):
        epochs.begin(header.leader_epoch, header.base_offset)
    return epochs


def _agree(epochs: LeaderEpochs, log: Log) -> bool:
    """Whether the first and last batch, and those where an epoch begins, were written in these epochs."""
    start, end = log.log_start_offset, log.log_end_offset
    for offset in {start, end - 1} if start < end else ():
        header = _batch_with(log, offset)
        if header is not None and epochs.epoch_of(header.base_offset) != header.leader_epoch:
            return False
    for epoch, begin in epochs.starts():
        if begin <= max(start, log.compacted_to):
            continue  # the batch before, or the first one, may be gone
        first, before = _batch_with(log, begin), _batch_with(log, begin - 1)
        if first is None or first.base_offset != begin or first.leader_epoch != epoch:
            return False
        if before is not None and before.leader_epoch >= epoch:
            return False
    return True


def _batch_with(log: Log, offset: int) -> BatchHeader | None:
    """The first batch that reaches an offset, as far as the log reads."""
    try:
        return log.header_of(offset)
    except CorruptBatch:
        return None


def save_leader_epochs(fs: FileSystem, directory: Path, epochs: LeaderEpochs) -> None:
    """Make the epochs durable, and the directory if this is the first that is in it. Raises OSError."""
    fs.make_directory(directory)
    replace_file(fs, directory / LEADER_EPOCHS_FILE, epochs.encode())


def load_producers(fs: FileSystem, directory: Path, log: Log, count: ProducerCount) -> Producers:
    """The producers' state at the end of the log, as far as its segments read. Raises OSError."""
    decoded = _read_snapshot(fs, directory, count)
    if decoded is None or decoded[1] > log.log_end_offset or not _is_of(decoded[0], log):
        producers, read_from = Producers(count), log.log_start_offset
    else:
        producers, read_from = decoded[0], max(decoded[1], log.log_start_offset)
    for segment in log.segments.reaching(read_from):
        try:
            for header, _ in log.batches(max(read_from, segment.base_offset), segment.next_offset):
                producers.remember(header)
        except CorruptBatch:
            continue  # readers are told of it; whoever wrote what is damaged there begins anew
    return producers


def _is_of(producers: Producers, log: Log) -> bool:
    """Whether the newest batch that is remembered stands in the log; another partition's does not."""
    newest = max(
        ((state.batches[-1].last_offset, key) for key, state in producers.items() if state.batches),
        default=None,
    )
    if newest is None or newest[0] < log.log_start_offset:
        return True
    header = _batch_with(log, newest[0])
    return header is not None and (header.last_offset, header.producer_id) == newest


def save_producers(fs: FileSystem, directory: Path, producers: Producers, end_offset: int) -> None:
    """Leave a snapshot of the state at `end_offset`. Raises OSError."""
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
    """Remove a snapshot that stands for more log than there is, for good. Raises OSError.

    It must go before the log grows past its offset again with other records.
    """
    try:
        decoded = _read_snapshot(fs, directory)
        if decoded is None or decoded[1] > end_offset:
            fs.remove(directory / PRODUCERS_FILE)
            fs.sync_directory(directory)
    except FileNotFoundError:
        pass


def _read_snapshot(
    fs: FileSystem, directory: Path, count: ProducerCount | None = None
) -> tuple[Producers, int] | None:
    try:
        return Producers.decode(read_file(fs, directory / PRODUCERS_FILE), count)
    except FileNotFoundError:
        return None

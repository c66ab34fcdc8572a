"""The state derived from a partition's log: the leader epochs, and the state of idempotent producers.

Both have a small file beside the segments (`partition_files`). The producers are loaded when first needed,
from their snapshot and the records after it. Epoch 0 needs no file: a log without the file has epoch 0.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headgate.domain.ids import Millis
from headgate.log.batch import BatchHeader, CorruptBatch
from headgate.log.log import Log
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.partition_files import (
    discard_producers_beyond,
    load_producers,
    save_leader_epochs,
    save_producers,
)
from headgate.topics.partition_topic import PartitionTopic
from headgate.topics.producers import Producers

logger = logging.getLogger(__name__)

_SNAPSHOT_EVERY_BYTES = 16 * 1024 * 1024
"""Maximum size of the log after the last snapshot, which must be read again for the producers' state."""


class DerivedState:
    """Leader epochs and producers of the partition of `topic` at `index`."""

    __slots__ = (
        "_epochs_are_saved",
        "_index",
        "_producers",
        "_topic",
        "appended_bytes",
        "epochs",
        "snapshot_at_bytes",
    )

    def __init__(self, topic: PartitionTopic, index: int) -> None:
        self._topic = topic
        self._index = index
        self.epochs = LeaderEpochs()
        self._epochs_are_saved = True
        self._producers: Producers | None = None
        self.appended_bytes = 0
        """Bytes appended since the log was opened."""
        self.snapshot_at_bytes = _SNAPSHOT_EVERY_BYTES

    def opened(self, log: Log, epochs: LeaderEpochs) -> None:
        """Use the epochs of a log that was opened."""
        self.epochs = epochs
        self._begin_epoch(log.log_end_offset)
        if log.log_end_offset == 0:
            self.forget_producers()
            self._producers = Producers(self._topic.shared.producers)

    def truncated(self, end_offset: int) -> None:
        """Discard the state of the truncated part of the log."""
        self.forget_producers()
        self.epochs.truncate(end_offset)
        self._begin_epoch(end_offset)
        discard_producers_beyond(self._topic.shared.fs, self._topic.directory_of(self._index), end_offset)

    def _begin_epoch(self, offset: int) -> None:
        leader_epoch = self._topic.leader_epoch
        self._epochs_are_saved = not self.epochs.begin(leader_epoch, offset) or leader_epoch == 0

    # --- appending ---

    def append_begins(self) -> None:
        """Make the leader epoch of the next batch durable. Raises OSError."""
        if not self._epochs_are_saved:
            save_leader_epochs(self._topic.shared.fs, self._topic.directory_of(self._index), self.epochs)
            self._epochs_are_saved = True

    def appended(self, headers: Sequence[BatchHeader], size: int) -> None:
        """Note batches of together `size` bytes at the log's end."""
        self.appended_bytes += size
        producers = self._producers
        if producers is not None:
            for header in headers:
                if header.producer_id >= 0:
                    producers.remember(header)

    # --- producers ---

    def producers(self, log: Log) -> Producers:
        """Return the state of the producers; load it if necessary. Raises OSError, CorruptBatch."""
        if self._producers is None:
            shared = self._topic.shared
            directory = self._topic.directory_of(self._index)
            self._producers = load_producers(shared.fs, directory, log, shared.producers)
        return self._producers

    def forget_producers(self) -> None:
        """Drop the state of the producers."""
        if self._producers is not None:
            self._producers.clear()
            self._producers = None

    def expire_producers(self, before: Millis) -> None:
        """Remove the state of producers without an append since `before`, if it is loaded."""
        if self._producers is not None:
            self._producers.expire(before)

    def save_producers(self, log: Log) -> None:
        """Write a snapshot. If that fails, the state is read from the log again at the next start."""
        self.snapshot_at_bytes = self.appended_bytes + _SNAPSHOT_EVERY_BYTES
        if not self.appended_bytes:
            return
        try:
            directory = self._topic.directory_of(self._index)
            save_producers(self._topic.shared.fs, directory, self.producers(log), log.log_end_offset)
        except (OSError, CorruptBatch) as problem:
            logger.warning("cannot keep the producers of %s-%d: %s", self._topic.name, self._index, problem)

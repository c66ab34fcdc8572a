"""The first offset of each leader epoch of a partition, so that clients detect a truncated log.

The epoch rises when the node starts after a crash: records that were not durable may be lost, and other
records may have their offsets. A client asks where its epoch ended, and so learns up to where its records are
still valid (KIP-320).

Rules, as Kafka's brokers answer OffsetForLeaderEpoch:

1. The current epoch ends at the log end offset.
2. A past epoch ends where the next epoch with records began; the answer names the greatest epoch not above
   the one asked for.
3. For an epoch above the current one, and for -1 (no epoch), the answer is (-1, -1).
4. An epoch below all known ones, also a negative one, ends where the first known epoch began.
"""

from __future__ import annotations

from bisect import bisect_right

UNDEFINED = (-1, -1)
_ANY = -1


class LeaderEpochs:
    """The epochs of one partition, in ascending order, each with its first offset."""

    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []

    def begin(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`; return False if that changes nothing."""
        if self._epochs and self._epochs[-1] >= epoch:
            return False
        # Remove epochs without records.
        while self._start_offsets and self._start_offsets[-1] >= start_offset:
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        return True

    def truncate(self, end_offset: int) -> None:
        """Remove epochs that begin at `end_offset` or later: the log was truncated there."""
        while self._start_offsets and self._start_offsets[-1] >= end_offset:
            self._epochs.pop()
            self._start_offsets.pop()

    def starts(self) -> list[tuple[int, int]]:
        """Return each epoch with its first offset."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest(self) -> int:
        """The last epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else -1

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; -1 for an offset before the first known epoch."""
        at = bisect_right(self._start_offsets, offset)
        return self._epochs[at - 1] if at else -1

    def end_offset_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the epoch that answers for `epoch` and its end offset, or `UNDEFINED`."""
        if epoch == _ANY or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        at = bisect_right(self._epochs, epoch)
        return (self._epochs[at - 1] if at else epoch), self._start_offsets[at]

    def encode(self) -> bytes:
        """Return Kafka's `leader-epoch-checkpoint`: a version, a count, then an epoch and its first offset
        per line.
        """
        lines = [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._start_offsets, strict=True)]
        return "\n".join(["0", str(len(lines)), *lines, ""]).encode()

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs | None:
        """Return the epochs in `data`; None for invalid bytes."""
        epochs = cls()
        try:
            version, count, *lines = data.decode("ascii").split("\n")
            pairs = [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines if line)]
            if int(version) != 0 or int(count) != len(pairs):
                return None
        except ValueError:
            return None
        last_epoch = last_start = -1
        for epoch, start in pairs:
            if epoch <= last_epoch or start <= last_start:
                return None
            last_epoch, last_start = epoch, start
            epochs.begin(epoch, start)
        return epochs

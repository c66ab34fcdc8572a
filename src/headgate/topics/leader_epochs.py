"""Where in a partition's log each leader epoch begins, so that a client notices when it has read a lost tail.

The epoch goes up when the node starts after a crash: what was not durable then may be gone, and other
records may stand at its offsets. A client that asks where its epoch ended learns how far its own past still
holds (KIP-320).

Rules, as Kafka's brokers answer OffsetForLeaderEpoch:

1. The current epoch ends where the log ends.
2. An epoch that has passed ends where the next one that wrote began; the answer names the greatest epoch
   not above the one asked for.
3. An epoch above the current one has no answer, nor has -1, which is none: (-1, -1).
4. An epoch below all that are known, also a negative one, ends where the first of them began.
"""

from __future__ import annotations

from bisect import bisect_right

UNDEFINED = (-1, -1)
_ANY = -1


class LeaderEpochs:
    """The epochs of one partition, ascending, each with its first offset."""

    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []

    def begin(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on; False when that changes nothing."""
        if self._epochs and self._epochs[-1] >= epoch:
            return False
        # An epoch that wrote nothing leaves no trace.
        while self._start_offsets and self._start_offsets[-1] >= start_offset:
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        return True

    def truncate(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: forget epochs that begin there or later."""
        while self._start_offsets and self._start_offsets[-1] >= end_offset:
            self._epochs.pop()
            self._start_offsets.pop()

    def starts(self) -> list[tuple[int, int]]:
        """Each epoch with its first offset."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest(self) -> int:
        """The last epoch that began; -1: none."""
        return self._epochs[-1] if self._epochs else -1

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 for an offset before all that is known."""
        at = bisect_right(self._start_offsets, offset)
        return self._epochs[at - 1] if at else -1

    def end_offset_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The epoch answered and the offset where it ends, or `UNDEFINED`."""
        if epoch == _ANY or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        at = bisect_right(self._epochs, epoch)
        return (self._epochs[at - 1] if at else epoch), self._start_offsets[at]

    def encode(self) -> bytes:
        """Kafka's `leader-epoch-checkpoint`: a version, a count, and an epoch and its first offset a line."""
        lines = [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._start_offsets, strict=True)]
        return "\n".join(["0", str(len(lines)), *lines, ""]).encode()

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs | None:
        """What `encode` wrote; None for anything else."""
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

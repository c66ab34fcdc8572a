"""The batches of one loop iteration: small commands share one, a command too large for one becomes a run.

A batch is atomic, so the commands that share it fail together; none of them was answered before. A run has
batches of its own (`run_batches`), and so have the records of a transaction, and the marker that ends it.

A command is encoded after its decision and before anything of it is applied (`failures`): `add` encodes all
of its records or, if it raises, none; `adding` does the same in steps. This class encodes records one by one.
A kind of shard whose records come in thousands extends it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from headgate.core.contract import Producer, TransactionEnd
from headgate.domain.ids import Millis
from headgate.log.builder import BatchBuilder
from headgate.log.header import HEADER_BYTES, read_header, set_transaction
from headgate.log.markers import EndMarker, encode_marker
from headgate.records.runs import RunPlace
from headgate.runtime.run_batches import RECORD_OVERHEAD, RunBatches

BATCH_BYTES = 900_000
"""Limit of the size of a batch's records, which keeps the batch below Kafka's limit of 1 MiB."""
LARGEST_INT32: Final = 0x7FFFFFFF

Encode = Callable[[Any], tuple[bytes, bytes | None]]
"""Encodes key and value of a record; a value of None is a tombstone."""


def is_over_batch(size: int) -> bool:
    """Return whether records of this size exceed a batch."""
    return size > BATCH_BYTES


class RecordTooLarge(Exception):
    """A record, or a commit that must be one batch, exceeds the largest batch of the log."""


class RecordBatches:
    """Encodes the batches of one shard's loop iterations."""

    def __init__(
        self,
        encode: Encode,
        largest_batch_bytes: Callable[[], int] = lambda: LARGEST_INT32,
        may_be_runs: bool = True,
    ) -> None:
        """`largest_batch_bytes`: the log's limit. A record that exceeds it is refused, as in Kafka. With
        `may_be_runs` false, the limit applies to a whole commit.
        """
        self._encode_record = encode
        self._largest_batch_bytes = largest_batch_bytes
        self._may_be_runs = may_be_runs
        self._batches: list[bytearray] = []
        self._shared = BatchBuilder(Millis(0))

    def add(self, changes: Sequence[Any], first_offset: int, now: Millis) -> int:
        """Encode the records of one command, at least one. Return how many there are.

        `first_offset` is the log offset of the first record, `now` the time in ms. Raises RecordTooLarge, and
        what an encoder raises for a value that no record can hold. Then nothing of the command is kept.
        """
        self._begin(now)
        shared, mark, batch_count = self._shared, self._shared.mark(), len(self._batches)
        try:
            return self._add_changes(changes, first_offset)
        except Exception:
            self._drop_since(shared, mark, batch_count)
            raise

    def adding(self, changes: Sequence[Any], first_offset: int, now: Millis) -> Generator[None, None, int]:
        """Do the same as `add` in steps. In between batches may be taken, and nothing else may be added."""
        encoded: list[tuple[bytes, bytes | None]] = []
        for change in changes:
            encoded.append(self._encode_record(change))
            yield
        size = self._checked_size(encoded)
        if self._is_run(size, len(encoded)):
            run = RunBatches(RunPlace(first_offset, 0, len(encoded)), now, BATCH_BYTES)
            for key, value in encoded:
                run.add(key, value)
                yield
            batches = run.build()
            self._begin(now)
            self._close_shared()
            self._batches += batches
        else:
            self._begin(now)
            self._make_room(size)
            self._shared.add_all(encoded, size)
        return len(encoded)

    def _begin(self, now: Millis) -> None:
        """Begin a batch with the time `now`, if nothing was added since the last `take`."""
        if not self._batches and not self._shared.record_count:
            self._shared = BatchBuilder(now)

    def add_transactional(self, changes: Sequence[Any], producer: Producer, now: Millis) -> int:
        """Encode records of a producer's open transaction, in batches of their own. Return their number.

        If they take several batches, none of them counts before the transaction is committed.
        """
        encoded = [self._encode_record(change) for change in changes]
        for key, value in encoded:
            self._check_size(len(key) + len(value or b""))
        self._close_before(now)
        part = BatchBuilder(now)
        for key, value in encoded:
            size = len(key) + len(value or b"") + RECORD_OVERHEAD
            if part.record_count and is_over_batch(part.size_bytes + size):
                self._close_part(part, producer)
                part = BatchBuilder(now)
            part.add(key, value, size)
        self._close_part(part, producer)
        return len(encoded)

    def add_end(self, end: TransactionEnd, now: Millis) -> int:
        """Append the marker that ends a producer's transaction. Return 1: it takes one offset."""
        self._close_before(now)
        marker = EndMarker(end.is_committed, end.coordinator_epoch)
        self._batches.append(encode_marker(marker, end.producer.producer_id, end.producer.epoch, now))
        return 1

    def take(self, most_bytes: int = LARGEST_INT32) -> list[bytearray]:
        """Return the batches of added commands, in order, and forget them.

        These are all batches, or the first ones with `most_bytes` together, if the others are larger.
        """
        self._close_shared()
        batches, self._batches = self._batches, []
        size = 0
        for count, batch in enumerate(batches, 1):
            size += len(batch)
            if size >= most_bytes:
                self._batches = batches[count:]
                return batches[:count]
        return batches

    @property
    def record_count(self) -> int:
        """Number of records that were added and not taken."""
        count = self._shared.record_count
        for batch in self._batches:
            count += read_header(batch).record_count
        return count

    def drop(self) -> None:
        """Forget all added commands."""
        self._batches = []
        self._shared = BatchBuilder(Millis(0))

    def of(self, commands: Sequence[Sequence[Any]], first_offset: int, now: Millis) -> list[bytearray]:
        """Return batches of the records of `commands`, in order, the first record at `first_offset`."""
        self.drop()
        written = 0
        for changes in commands:
            written += self.add(changes, first_offset + written, now)
        return self.take()

    def _add_changes(self, changes: Sequence[Any], first_offset: int) -> int:
        """Add a command's records to the shared batch, or as a run. Return how many there are."""
        encoded = [self._encode_record(change) for change in changes]
        size = self._checked_size(encoded)
        self._make_room(size)
        if self._is_run(size, len(encoded)):
            run = self._run(first_offset, len(encoded))
            for key, value in encoded:
                run.add(key, value)
            self._batches += run.build()
        else:
            self._shared.add_all(encoded, size)
        return len(encoded)

    def _checked_size(self, encoded: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Return about how many bytes encoded records take. Raises RecordTooLarge."""
        size = sum(len(key) + len(value or b"") + RECORD_OVERHEAD for key, value in encoded)
        for key, value in encoded if is_over_batch(size) else ():
            self._check_size(len(key) + len(value or b""))
        return size

    def _is_run(self, size: int, count: int) -> bool:
        """Return whether records of this size need several batches. Raises RecordTooLarge if not allowed."""
        if size <= BATCH_BYTES or count == 1:
            return False
        if not self._may_be_runs:
            self._check_size(size)
        return self._may_be_runs

    def _run(self, first_offset: int, count: int) -> RunBatches:
        return RunBatches(RunPlace(first_offset, 0, count), self._shared.timestamp, BATCH_BYTES)

    def _drop_since(self, shared: BatchBuilder, mark: tuple[int, int, int], batch_count: int) -> None:
        """Undo the additions since the start of one command; keep those of earlier commands."""
        shared.cut_back(mark)
        if self._shared is not shared:  # it was closed, and is the first batch after the earlier ones
            batch_count += 1 if shared.record_count else 0
            self._shared = BatchBuilder(shared.timestamp)
        del self._batches[batch_count:]

    def _check_size(self, size: int) -> None:
        limit = self._largest_batch_bytes()
        if size + RECORD_OVERHEAD + HEADER_BYTES > limit:
            raise RecordTooLarge(f"a record of {size} bytes does not fit into a batch of {limit} bytes")

    def _make_room(self, size: int) -> None:
        if self._shared.size_bytes + size > BATCH_BYTES:
            self._close_shared()

    def _close_shared(self) -> None:
        if self._shared.record_count:
            self._batches.append(self._shared.build())
            self._shared = BatchBuilder(self._shared.timestamp)

    def _close_before(self, now: Millis) -> None:
        """Close the shared batch: the next batch is not shared."""
        self._close_shared()
        if not self._batches:
            self._shared = BatchBuilder(now)

    def _close_part(self, part: BatchBuilder, producer: Producer) -> None:
        batch = part.build()
        set_transaction(batch, producer.producer_id, producer.epoch)
        self._batches.append(batch)

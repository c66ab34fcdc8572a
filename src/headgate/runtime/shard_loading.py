"""Loads a shard from a log: many records at a time if their kind decodes columns, otherwise one by one.

The result equals that of reading record by record. Anything that is not plain is read this way: runs
(`headgate.records.runs`), transactions, unusual batches, logs of other versions. The records of a slice are
applied in log order, except for those that are independent of the rows
(`headgate.core.contract.TakesRows`): these are applied before the rows around them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from headgate.core.contract import (
    FinishesLater,
    MalformedImage,
    Pictured,
    Producer,
    Shard,
    TakesRows,
    TakesTransactions,
    TransactionEnd,
    finish,
)
from headgate.domain.ids import Millis
from headgate.log.batch import BatchHeader, CorruptBatch, Record, iterate_records
from headgate.log.markers import read_marker
from headgate.log.record_columns import RecordColumns, read_columns
from headgate.log.state_file import StateFileUnusable
from headgate.records.runs import RunPlace, RunReader, run_place, run_stretch
from headgate.runtime.checkpoint_store import CheckpointStore
from headgate.runtime.shard_kind import RecordFormat, RecordRows
from headgate.runtime.state_log import Batches

_STRETCHES_AT_ONCE = 512
"""Groups and topics, possibly new ones, whose rows are applied in one step."""
_STEP_RECORDS = 256
"""Records that are applied one by one in a step."""
_FEWEST_BETWEEN = 16
"""Average distance between other records below which columns save no time."""


class LogLoading:
    """Applies the batches of one log to a shard, beginning with a batch that is not inside a run."""

    def __init__(self, shard: Shard[Any, Any], records: RecordFormat) -> None:
        self._shard = shard
        self._decode = records.decode
        self._columns = records.columns if isinstance(shard, TakesRows) else None
        self._takes_transactions = isinstance(shard, TakesTransactions)
        self._unfinished: deque[Iterator[None]] = deque()
        if isinstance(shard, FinishesLater):
            shard.finishes_later = True
            self._unfinished = shard.unfinished
        self._runs: RunReader[tuple[int, Record]] = RunReader()
        self._run: list[RecordColumns] = []
        """Parts of a run that is incomplete."""
        self._expected: RunPlace | None = None
        """Expected place of the next record in this run."""

    def steps(self, batches: Batches) -> Iterator[None]:
        """Apply the next batches of the log. A slice may end after each step.

        Raises OSError, CorruptBatch, MalformedRecord: the shard is then unusable.
        """
        held: list[tuple[BatchHeader, bytes]] = []
        for header, batch in batches:
            if not header.is_control and not (header.is_transactional and self._takes_transactions):
                held.append((header, batch))
                continue
            yield from self._take(held)
            held = []
            if self._takes_transactions:
                yield from self._transactional(header, batch)
        yield from self._take(held)

    def torn(self) -> list[Any]:
        """Return the records of incomplete commits at the end of the log, cut short by a crash."""
        self._release_run()
        return [self._decoded(record) for _, record in self._runs.end()]

    def _decoded(self, record: Record) -> Any:
        return self._decode(record.key, record.value, Millis(record.timestamp))

    def _take(self, held: Batches) -> Iterator[None]:
        if not held:
            return
        if self._columns is not None and not self._runs.is_open:
            columns = read_columns(held)
            if columns is not None and columns.has_headers.any():
                place = _place_in_run(columns)
                if place is None and len(held) > 1:
                    for one in held:
                        yield from self._take([one])
                    return
                if place is not None and (place == self._expected if self._run else not place.before):
                    yield from self._take_run(columns, place)
                    return
            elif columns is not None and not self._run and (yield from self._take_columns(columns)):
                return
        self._release_run()
        yield from self._one_by_one(held)

    # --- runs ---

    def _take_run(self, columns: RecordColumns, place: RunPlace) -> Iterator[None]:
        """Keep a part of a run until the run is complete, then apply it."""
        self._run.append(columns)
        before = place.before + len(columns)
        if before < place.total:
            self._expected = place._replace(before=before)
            return
        complete, self._run = self._run, []
        self._runs.torn = []
        for part in complete:
            if not (yield from self._take_columns(part)):
                for at in range(len(part)):
                    self._apply(part, at)
                yield

    def _release_run(self) -> None:
        """Pass the parts of a run that does not continue as expected to the reader of single records."""
        expected = self._expected
        if self._run and expected is not None:
            before = expected.before - sum(map(len, self._run))
            for part in self._run:
                for at, offset in enumerate(part.offsets.tolist()):
                    record = Record(part.key(at), part.value(at))
                    self._runs.take((offset, record), expected._replace(before=before))
                    before += 1
        self._run = []

    def _one_by_one(self, batches: Batches) -> Iterator[None]:
        apply, runs, decode = self._shard.apply, self._runs, self._decode
        count = 0
        for _, batch in batches:
            for offset, record in iterate_records(batch):
                if record.headers or runs.is_open:
                    for at, complete in runs.take((offset, record), run_place(record.headers)):
                        apply(decode(complete.key, complete.value, Millis(complete.timestamp)), at)
                else:
                    apply(decode(record.key, record.value, Millis(record.timestamp)), offset)
                count += 1
                if not count % _STEP_RECORDS:
                    yield
        yield

    def _transactional(self, header: BatchHeader, batch: bytes) -> Iterator[None]:
        """Apply the records of a transaction, or the marker that ends it."""
        shard, producer = self._shard, Producer(header.producer_id, header.producer_epoch)
        self._release_run()
        if header.is_control:
            assert isinstance(shard, TakesTransactions)
            marker = read_marker(batch)
            if marker is not None:
                shard.end_transaction(TransactionEnd(producer, *marker), header.base_offset)
            yield from finish(self._unfinished)
            return
        for count, (offset, record) in enumerate(iterate_records(batch), 1):
            for at, complete in self._runs.take((offset, record), None):
                shard.apply(self._decoded(complete), at, producer)
            if not count % _STEP_RECORDS:
                yield
        yield

    def _take_columns(self, columns: RecordColumns) -> Generator[None, None, bool]:
        """Apply the records as columns, in steps. Return False, and do nothing, if that saves no time."""
        assert self._columns is not None
        at, rows = self._columns.read(columns)
        if len(at) == len(columns):
            yield from self._apply_rows(rows)
            return True
        is_other = np.ones(len(columns), np.bool_)
        is_other[at] = False
        others = np.flatnonzero(is_other).tolist()
        in_order = [other for other in others if not self._columns.is_apart(columns, other)]
        if len(in_order) * _FEWEST_BETWEEN > len(columns):
            return False
        done = 0
        pending = iter(others)
        for barrier in (*in_order, len(columns)):
            for other in pending:
                if other == barrier:
                    break
                self._apply(columns, other)
            end = int(np.searchsorted(at, barrier))
            yield from self._apply_rows(rows.between(done, end))
            done = end
            if barrier < len(columns):
                self._apply(columns, barrier)
        return True

    def _apply(self, columns: RecordColumns, at: int) -> None:
        record = self._decode(columns.key(at), columns.value(at), Millis(int(columns.timestamps[at])))
        self._shard.apply(record, int(columns.offsets[at]))

    def _apply_rows(self, rows: RecordRows) -> Iterator[None]:
        """Apply the rows, some groups and topics at a time, because each of them may be new."""
        assert isinstance(self._shard, TakesRows)
        first = 0
        while first < len(rows):
            end = int(np.searchsorted(rows.stretch_of, rows.stretch_of[first] + _STRETCHES_AT_ONCE))
            self._shard.apply_rows(rows.between(first, end) if end - first < len(rows) else rows)
            first = end
            yield
            yield from finish(self._unfinished)


class CheckpointLoading:
    """Restores a shard from the checkpoint of its log."""

    def __init__(self, shard: Shard[Any, Any], store: CheckpointStore | None) -> None:
        self._shard = shard
        self._store = store
        self.position: int | None = None
        """Offset at which the log must be applied; None without a usable checkpoint."""

    def steps(self) -> Iterator[None]:
        """Restore the shard. A slice may end after each step.

        Raises CheckpointUnusable: the shard is then unusable.
        """
        shard = self._shard
        if self._store is None or not isinstance(shard, Pictured):
            return
        try:
            file = self._store.open()
            if file is None:
                return
            try:
                yield from shard.restore(file.of_kind, file.contents)
            finally:
                file.close()
        except (StateFileUnusable, MalformedImage, OSError, CorruptBatch, ValueError, LookupError) as problem:
            raise CheckpointUnusable(str(problem)) from problem
        self.position = file.bond.position


class CheckpointUnusable(Exception):
    """The log must be read from its start; the message holds the reason."""


def _place_in_run(columns: RecordColumns) -> RunPlace | None:
    header_starts = columns.value_starts + np.maximum(columns.value_sizes, 0)
    return run_stretch(columns.data, header_starts, columns.ends)

"""Helpers of the compaction tests: logs of records with keys, readers of them, and a driver of
compactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headgate.log.batch import Record, encode_batch, iterate_records, read_header
from headgate.log.compaction import CompactionOrder, CompactionResult, Dropped, Steps, compact
from headgate.log.log import Log
from headgate.log.record_columns import RecordColumns
from headgate.records.run_completeness import RunCompleteness
from headgate.records.runs import RunPlace, RunReader, run_place

NOW = 1_000_000
RETENTION = 100
ResultT = TypeVar("ResultT")
Pair = tuple[str, str | None]


def drive(steps: Steps[ResultT]) -> ResultT:
    """Run work in steps to its end, as a server does but without others in between."""
    try:
        while True:
            advance(steps)
    except StopIteration as stop:
        result: ResultT = stop.value
        return result


def advance(steps: Steps[ResultT]) -> None:
    """Go on with it until it yields, and do what it wants done. StopIteration at its end."""
    work = next(steps)
    if work is not None:
        try:
            work()
        except Exception as problem:
            steps.throw(problem)


def order(
    log: Log,
    *,
    now: int = NOW,
    not_beyond: int | None = None,
    table_bytes: int = 1 << 20,
    producers_since: int = -1,
    dropped: Dropped | None = None,
) -> CompactionOrder:
    """A compaction of all closed segments that gives others their turn as often as it can."""
    return CompactionOrder(
        now_ms=now,
        delete_retention_ms=RETENTION,
        not_beyond=log.durable_offset if not_beyond is None else not_beyond,
        producers_since_ms=producers_since,
        table_bytes=table_bytes,
        new_completeness=RunCompleteness,
        dropped=dropped,
        is_slice_over=lambda: True,
    )


def put(log: Log, pairs: Sequence[Pair], *, codec: int = 0, producer: tuple[int, int] = (-1, -1)) -> None:
    """Append one batch of these keys and values; `producer` is id and first sequence."""
    write(log, [record(key, value, log.log_end_offset) for key, value in pairs], codec, producer)


def record(key: str, value: str | None, timestamp: int) -> Record:
    """A record as the tests write them."""
    return Record(key.encode(), None if value is None else value.encode(), timestamp)


def write(log: Log, records: Sequence[Record], codec: int = 0, producer: tuple[int, int] = (-1, -1)) -> None:
    """Append one batch of these records."""
    batch = encode_batch(
        records,
        base_offset=log.log_end_offset,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=min(producer[0], 0),
        base_sequence=producer[1],
    )
    log.append(batch, [read_header(batch)])


def put_run(log: Log, pairs: Sequence[Pair], batches: int, whole: bool = True) -> None:
    """Append a run over so many batches; one that is not whole lacks its last record."""
    first = log.log_end_offset
    records = [
        record(key, value, first)._replace(headers=(RunPlace(first, at, len(pairs)).header(), (b"x", b"y")))
        for at, (key, value) in enumerate(pairs)
    ]
    if not whole:
        records.pop()
    size = max(1, -(-len(records) // batches))
    for at in range(0, len(records), size):
        write(log, records[at : at + size])


def replayed(log: Log) -> dict[str, str]:
    """What a reader of the whole log ends up with: runs all or nothing, tombstones as absence."""
    state: dict[str, str] = {}
    for _, one in complete_records(log):
        assert one.key is not None
        if one.value is None:
            state.pop(one.key.decode(), None)
        else:
            state[one.key.decode()] = one.value.decode()
    return state


def complete_records(log: Log) -> Iterator[tuple[int, Record]]:
    """The records that count, with their offsets."""
    reader: RunReader[tuple[int, Record]] = RunReader()
    for _, batch in log.batches(log.log_start_offset):
        for offset, one in iterate_records(batch):
            yield from reader.take((offset, one), run_place(one.headers))


def all_records(log: Log) -> dict[int, Record]:
    """Every record there is, by offset."""
    return {
        offset: one
        for _, batch in log.batches(log.log_start_offset)
        for offset, one in iterate_records(batch)
    }


@dataclass
class Collecting:
    """Collects the records that compaction drops, as the history does."""

    offered: list[tuple[int, Record]] = field(default_factory=list)
    settled: int = 0

    def offer(self, offset: int, record: Record) -> None:
        self.offered.append((offset, record))

    def offer_columns(self, columns: RecordColumns, rows: range) -> None:
        for row in rows:
            record = Record(columns.key(row), columns.value(row), int(columns.timestamps[row]))
            self.offer(int(columns.offsets[row]), record)

    @property
    def is_flush_due(self) -> bool:
        return len(self.offered) % 3 == 2

    def flush(self) -> Steps[None]:
        yield None

    def settle(self) -> Steps[None]:
        yield None
        self.settled = len(self.offered)


def compacted(log: Log, **how: int) -> CompactionResult:
    """Compact the log, all its closed segments."""
    return drive(compact(log, order(log, **how)))  # type: ignore[arg-type]

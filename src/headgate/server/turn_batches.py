"""The batches of one turn: commands small enough share one, a command too large for one becomes a run.

A batch is all or nothing, so the commands that share it stand or fall together; none was answered yet. A
run's records carry their place in it (`headgate.records.runs`).
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.domain.ids import Millis
from headgate.log.batch import Record
from headgate.log.builder import BatchBuilder
from headgate.records import Change, OffsetCommits, encode
from headgate.records.columns import records_of
from headgate.records.runs import RunPlace

BATCH_BYTES = 900_000
"""What the records of a batch come to at most, so that it stays below Kafka's limit of 1 MiB."""
_RECORD_OVERHEAD = 16
_RUN_HEADER_OVERHEAD = 40


def batches_of(commands: Sequence[Sequence[Change]], first_offset: int, now: Millis) -> list[bytearray]:
    """The batches that hold the records of `commands`, in order; `first_offset` is the first record's."""
    batches: list[bytearray] = []
    shared = BatchBuilder(now)
    written = 0
    for changes in commands:
        parts = [_Columns(one) if isinstance(one, OffsetCommits) else _Single(one) for one in changes]
        size = parts[0].size if len(parts) == 1 else sum(part.size for part in parts)
        count = parts[0].count if len(parts) == 1 else sum(part.count for part in parts)
        if shared.record_count and shared.size_bytes + size > BATCH_BYTES:
            batches.append(shared.build())
            shared = BatchBuilder(now)
        if size > BATCH_BYTES and count > 1:
            batches += _run(changes, first_offset + written, count, now)
        else:
            for part in parts:
                part.add_to(shared)
        written += count
    if shared.record_count:
        batches.append(shared.build())
    return batches


class _Single:
    """One record, encoded."""

    __slots__ = ("_key", "_value", "size")
    count = 1

    def __init__(self, record: Change) -> None:
        assert not isinstance(record, OffsetCommits)
        self._key, self._value = encode(record)
        self.size = len(self._key) + len(self._value or b"") + _RECORD_OVERHEAD

    def add_to(self, builder: BatchBuilder) -> None:
        builder.add(Record(self._key, self._value), self.size)


class _Columns:
    """As many records as a wide commit has partitions, encoded."""

    __slots__ = ("_keys", "_values", "count", "size")

    def __init__(self, commits: OffsetCommits) -> None:
        self._keys, self._values = commits.encode()
        self.count = len(commits)
        self.size = self._keys.size + self._values.size + self.count * _RECORD_OVERHEAD

    def add_to(self, builder: BatchBuilder) -> None:
        builder.add_columns(self._keys, self._values)


def _run(changes: Sequence[Change], first_offset: int, total: int, now: Millis) -> list[bytearray]:
    records = [record for change in changes for record in records_of(change)]
    batches: list[bytearray] = []
    part = BatchBuilder(now)
    for before, record in enumerate(records):
        key, value = encode(record)
        header = RunPlace(first_offset, before, total).header()
        size = len(key) + len(value or b"") + _RECORD_OVERHEAD + _RUN_HEADER_OVERHEAD
        part.add(Record(key, value, now, (header,)), size)
        if part.size_bytes > BATCH_BYTES or before + 1 == total:
            batches.append(part.build())
            part = BatchBuilder(now)
    return batches

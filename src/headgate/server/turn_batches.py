"""The batches of one turn: commands small enough share one, a command too large for one becomes a run.

A batch is all or nothing, so the commands that share it stand or fall together; none was answered yet. A
run's records carry their place in it (`headgate.records.runs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.domain.ids import Millis
from headgate.log.batch import Record, encode_batch
from headgate.records import encode
from headgate.records.runs import RunPlace

BATCH_BYTES = 900_000
"""What the records of a batch come to at most, so that it stays below Kafka's limit of 1 MiB."""
_RECORD_OVERHEAD = 16
_RUN_HEADER_OVERHEAD = 40


def batches_of(commands: Sequence[Sequence[Any]], first_offset: int, now: Millis) -> list[bytearray]:
    """The batches that hold the records of `commands`, in order; `first_offset` is the first record's."""
    batches: list[bytearray] = []
    shared: list[Record] = []
    shared_bytes = 0
    offset = first_offset
    for command in commands:
        records = [Record(*encode(record), now) for record in command]
        if len(records) == 1:  # nearly always: a commit of one partition
            key, value, _, _ = records[0]
            size = len(key or b"") + len(value or b"") + _RECORD_OVERHEAD
        else:
            size = _size(records)
        if shared and shared_bytes + size > BATCH_BYTES:
            batches.append(encode_batch(shared))
            shared, shared_bytes = [], 0
        if size > BATCH_BYTES and len(records) > 1:
            batches += _run(records, offset)
        else:
            shared += records
            shared_bytes += size
        offset += len(records)
    if shared:
        batches.append(encode_batch(shared))
    return batches


def _size(records: Sequence[Record]) -> int:
    return sum(len(key or b"") + len(value or b"") + _RECORD_OVERHEAD for key, value, _, _ in records)


def _run(records: Sequence[Record], first_offset: int) -> list[bytearray]:
    total = len(records)
    batches: list[bytearray] = []
    part: list[Record] = []
    part_bytes = 0
    for index, record in enumerate(records):
        part.append(record._replace(headers=(RunPlace(first_offset, index, total).header(),)))
        part_bytes += _size((record,)) + _RUN_HEADER_OVERHEAD
        if part_bytes > BATCH_BYTES or index + 1 == total:
            batches.append(encode_batch(part))
            part, part_bytes = [], 0
    return batches

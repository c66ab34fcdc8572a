"""Logs as bytes and on disk, and the readers' results without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.log.batch import Record, encode_batch
from headgate.log.batch_scan import PADDING, Chunk
from headgate.spark.options import parse
from headgate.spark.source import View, ViewReader

Batch = bytes | bytearray


def chunk_of(data: Batch, start_offset: int = 0, end_offset: int = 1 << 62) -> Chunk:
    """Return a chunk of these bytes for the scanner."""
    return Chunk(bytearray(data) + bytes(PADDING), len(data), "a.log", 0, start_offset, end_offset)


def write_segment(
    directory: Path, topic: str, partition: int, batches: Sequence[Batch], base_offset: int = 0
) -> Path:
    """Write a segment file of a partition, in the layout of a broker's data directory."""
    folder = directory / f"{topic}-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{base_offset:020}.log"
    file.write_bytes(b"".join(batches))
    return file


def numbered(count: int, base_offset: int = 0, **options: Any) -> bytearray:
    """Return a batch of `count` records with their offset as key and value; `options` as encode_batch's."""
    records = [
        Record(b"k%d" % offset, b"v%d" % offset, 1_700_000_000_000 + offset)
        for offset in range(base_offset, base_offset + count)
    ]
    return encode_batch(records, base_offset=base_offset, **options)


def rows_of(view: View, directory: Path, topic: str, **options: str) -> list[dict[str, Any]]:
    """Return the rows of a view of a data directory, without Spark: planned, read task by task, as dicts."""
    reader = ViewReader(view, parse({"path": str(directory), "topic": topic, **options}))
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: tuple(row[name] for name in list(row)[:3] if row[name] is not None))


def collect(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a small DataFrame as dicts, nested rows as dicts too."""
    return [row.asDict(recursive=True) for row in frame.collect()]


def make_due(target: Path) -> None:
    """Let the next landing merge the files of past days."""
    progress = target / "_headgate" / "progress.json"
    content = json.loads(progress.read_text()) | {"merged_before": "2020-01-01"}
    del content["crc32c"]
    progress.write_text(json.dumps(content))

"""Rows made of records that are decoded one by one: an event for each record, whatever its log.

No record is dropped: one without columns, or with invalid content, keeps its key and value unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from headgate.domain.ids import TopicPartition
from headgate.log.batch_records import Records
from headgate.spark import arrow
from headgate.spark.arrow import Column
from headgate.spark.schemas import arrow_type

Event = dict[str, Any]
"""The columns of one record. It has `event`; a column that is missing is null."""

OTHER, MALFORMED = "other", "malformed"
"""The events of records that keep their bytes."""

Cells = list[bytes | None]


def keys_and_values(records: Records) -> tuple[Cells, Cells]:
    """Return the key and the value of each record."""
    keys = arrow.binaries(records.payload, records.key_at, records.key_size).to_pylist()
    values = arrow.binaries(records.payload, records.value_at, records.value_size).to_pylist()
    return keys, values


def event_columns(
    records: Records,
    where: TopicPartition,
    schema: StructType,
    events: Sequence[Event],
    cells: tuple[Cells, Cells],
) -> dict[str, Column]:
    """Return the columns of a schema: the position in the log, those of the events, and the bytes kept.

    `cells` has the keys and the values of the records.
    """
    count, types = len(records), _types(schema)
    raw = np.asarray([event["event"] in (OTHER, MALFORMED) for event in events], dtype=np.bool_).tolist()

    def column(name: str) -> Column:
        return lambda: pa.array([event.get(name) for event in events], type=types[name])

    def kept(of_records: Cells) -> Column:
        return lambda: pa.array(
            [cell if keep else None for cell, keep in zip(of_records, raw, strict=True)], type=pa.binary()
        )

    return {
        **{name: column(name) for name in types},
        "log_partition": lambda: arrow.constant(where.partition, count, pa.int32()),
        "log_offset": lambda: arrow.integers(records.offset, pa.int64()),
        "log_timestamp": lambda: arrow.timestamps(records.timestamp_ms),
        "log_leader_epoch": lambda: arrow.leader_epochs(records),
        "is_tombstone": lambda: pa.array((records.value_size < 0) & ~records.is_control),
        "key": kept(cells[0]),
        "value": kept(cells[1]),
    }


def _types(schema: StructType) -> dict[str, pa.DataType]:
    return {field.name: arrow_type(field.dataType) for field in schema}

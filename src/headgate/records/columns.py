"""What a shard decides: single records, and values that stand for many."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from headgate.records.model import Record
from headgate.records.offset_batches import ColumnBatch, OffsetBatch
from headgate.records.offset_rows import OffsetRows

Int64s = NDArray[np.int64]

_MANY = OffsetBatch, ColumnBatch, OffsetRows
Change = Record | OffsetBatch | ColumnBatch | OffsetRows
"""What a shard decides: one record, or many as one value."""


def records_of(change: Change) -> Iterable[Record]:
    """The records that a change stands for, in order."""
    return change.each() if isinstance(change, _MANY) else (change,)


def record_count(change: Change) -> int:
    """How many records of the log a change takes."""
    return len(change) if isinstance(change, _MANY) else 1

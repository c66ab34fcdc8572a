"""The changes that a shard decides: single records, and values for many records."""

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
"""A change of state that a shard decides: one record, or many records as one value."""


def records_of(change: Change) -> Iterable[Record]:
    """Return the single records of a change, in order."""
    return change.each() if isinstance(change, _MANY) else (change,)


def record_count(change: Change) -> int:
    """Return the number of records of a change."""
    return len(change) if isinstance(change, _MANY) else 1

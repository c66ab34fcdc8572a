"""The order of the rows in a file, computed from numbers: Arrow's sort compares texts row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.log.batch_scan import Bits, Ints
from headgate.spark.landing import tables

_MOST = 1 << 62
_DAY_US = 86_400_000_000
_SAMPLE = 1000
"""Rows that are looked at first: in a table that is not sorted, they mostly are not, either."""


def sorted_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows sorted by these columns, ascending, nulls last."""
    if is_sorted(rows.slice(0, _SAMPLE), columns) and is_sorted(rows, columns):
        return rows
    number = _order_numbers(rows, columns)
    if number is None:
        return rows.sort_by([(column, "ascending") for column in columns])
    if (number[1:] >= number[:-1]).all():
        return rows
    order = pa.array(np.argsort(number, kind="stable"))
    columns = [column if _is_constant(column) else column.take(order) for column in rows.columns]
    return pa.table(columns, schema=rows.schema)


def by_date(rows: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each UTC date of a column of times, in order; those without a time at last."""
    times = rows[column].cast(pa.int64())
    if rows.num_rows and not times.null_count:
        bounds = pc.min_max(times).as_py()
        if bounds["min"] // _DAY_US == bounds["max"] // _DAY_US:
            yield tables.date_of(bounds["min"]), rows
            return
    is_null = np.asarray(times.is_null())
    day = np.asarray(pc.fill_null(times, 0)).astype(np.int64) // _DAY_US
    days = np.unique(day[~is_null]).tolist()
    for each in days:
        chosen = (day == each) & ~is_null
        found = rows if len(days) == 1 and not is_null.any() else rows.filter(pa.array(chosen))
        yield tables.date_of(each * _DAY_US), found
    if is_null.any():
        yield tables.NO_DATE, rows.filter(pa.array(is_null))


def _order_numbers(rows: pa.Table, columns: Sequence[str]) -> Ints | None:
    """Return a number for each row that orders it; None if one of 64 bits is not enough.

    Rows of equal numbers must be in the order of the last column, if that is ascending already.
    """
    names = list(columns)
    if len(names) > 1 and _ascends(rows[names[-1]]):
        names.pop()
    number: Ints = np.zeros(rows.num_rows, np.int64)
    size = 1
    for name in names:
        part, count = _ranks(rows[name])
        size *= count
        if size > _MOST:
            return None
        number = number * count + part
    return number


def is_sorted(rows: pa.Table, columns: Sequence[str]) -> bool:
    """Return whether the rows are sorted by these columns. False if that is not seen by one pass."""
    decided: Bits = np.zeros(max(rows.num_rows - 1, 0), np.bool_)
    for name in columns:
        column = rows[name].combine_chunks()
        if column.null_count:
            return False
        before, after = column[:-1], column[1:]
        if not (decided | np.asarray(pc.less_equal(before, after))).all():
            return False
        decided |= np.asarray(pc.less(before, after))
        if decided.all():
            break
    return True


def _is_constant(column: pa.ChunkedArray) -> bool:
    """Return whether a column has the same value in every row, so that it is the same in any order."""
    if not len(column) or column.null_count:
        return bool(column.null_count == len(column))
    first, last = column[0], column[-1]
    if pa.types.is_nested(column.type) or first != last or first != column[len(column) // 2]:
        return False
    return bool(pc.all(pc.equal(column, first)).as_py())


def _ascends(column: pa.ChunkedArray) -> bool:
    if column.null_count or not pa.types.is_integer(column.type):
        return False
    values = np.asarray(column)
    return bool((values[1:] >= values[:-1]).all())


def _ranks(column: pa.ChunkedArray) -> tuple[Ints, int]:
    """Return the rank of each value among those of the column, and a number above all ranks."""
    if pa.types.is_integer(column.type) and not column.null_count:
        values: Ints = np.asarray(column).astype(np.int64)
        least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if most - least < _MOST:
            return values - least, most - least + 1
    coded = column.combine_chunks().dictionary_encode()
    in_order = np.asarray(pc.sort_indices(coded.dictionary)).astype(np.int64)
    rank = np.empty(len(in_order) + 1, np.int64)
    rank[in_order] = np.arange(len(in_order))
    rank[-1] = len(in_order)  # for null, whose code is -1 here
    return rank[np.asarray(pc.fill_null(coded.indices, -1)).astype(np.int64)], len(in_order) + 1

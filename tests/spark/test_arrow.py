"""Columns of numbers, texts and constants."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from tests.kernels import WAYS, read_by

from headgate.log.batch_scan import PADDING
from headgate.spark import arrow

NO_TIME, TOO_LATE = -1, arrow.LAST_TIMESTAMP_MS + 1


@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 9, 1000])
def test_constants_that_python_calls_equal_are_columns_of_their_own(size: int) -> None:
    """False is 0 and True is 1, but not the same column; nor is the same value in another type."""
    kinds = ((False, pa.bool_()), (0, pa.int32()), (0, pa.int64()), (True, pa.bool_()), (1, pa.int32()))
    for value, kind in (*kinds, (None, pa.int64()), ("t", pa.string())):
        column = arrow.constant(value, size, kind)
        column.validate(full=True)
        assert column.type == kind
        assert column.to_pylist() == [value] * size


@pytest.mark.parametrize(
    "given",
    [[], [5], [NO_TIME], [NO_TIME, NO_TIME], [5, NO_TIME], [TOO_LATE, NO_TIME], [TOO_LATE], [0, 5, 1000]],
    ids=str,
)
def test_times_that_do_not_exist_are_null(given: list[int]) -> None:
    """No time, and times after those that Spark has, whether all, some or none are."""
    column = arrow.timestamps(np.array(given, np.int64))
    column.validate(full=True)
    expected = [
        None if one in (NO_TIME, TOO_LATE) else datetime.fromtimestamp(one / 1000, UTC) for one in given
    ]
    assert column.to_pylist() == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("octets", "text"), [(b"abc", "abc"), ("ä€".encode(), "ä€"), (b"\xff", "\ufffd"), (b"", "")], ids=repr
)
def test_texts_are_checked_unless_all_are_ascii(
    octets: bytes, text: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid bytes never reach Spark, whichever way copies them."""
    read_by(way, monkeypatch)
    payload, at = b"zz" + octets + bytes(PADDING), np.array([0, 2, 2], np.int64)
    column = arrow.strings(payload, at, np.array([2, -1, len(octets)], np.int64))
    column.validate(full=True)
    assert column.to_pylist() == ["zz", None, text]

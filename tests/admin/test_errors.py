"""The error messages of the Admin API."""

from __future__ import annotations

import pytest

from headgate.admin.errors import moment
from headgate.domain.ids import Millis


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (9_300_000_000_000, "2264-09-14T21:20:00.000Z"),
        (253_402_300_800_000, "253402300800000"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_a_time_out_of_range_is_shown_as_a_number(time: int, text: str) -> None:
    """A commit timestamp can have any value, if the clock was wrong."""
    assert moment(Millis(time)) == text

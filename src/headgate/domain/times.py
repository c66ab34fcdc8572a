"""Times that users give, as datetimes or in ms since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headgate.domain.ids import Millis

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = range(10**9, 10**11)
"""From 2001 on if they are seconds. As milliseconds they are times in 1970 to 1973, before all records and
all history: the offsets of then are the starts of the logs, or none at all.
"""
YEAR_10_000 = 253_402_300_800_000
"""The first ms after what a datetime can have. A time from then on is after all records and all history."""
_MICROSECONDS_BELOW = 10**17
"""Of the year 5138 if they are microseconds, and of 1973 if they are nanoseconds."""


def millis(time: datetime | int) -> Millis:
    """Return a time in ms since the epoch.

    Raises ValueError for a datetime without a time zone and for an int that surely has seconds, microseconds
    or nanoseconds, and TypeError for what is neither a datetime nor an int.
    """
    if not isinstance(time, datetime):
        if not isinstance(time, int):
            raise TypeError(
                f"a time must be a datetime, or an int of milliseconds since the epoch, not {time!r}"
            )
        if time in _SECONDS:
            raise ValueError(
                f"a time must be in milliseconds since the epoch, and {time} looks like seconds; in "
                f"milliseconds it is {as_datetime(Millis(time)):%Y-%m-%d}: if you mean that, give a datetime"
            )
        if time >= YEAR_10_000:
            unit, factor = ("micro", 10**3) if time < _MICROSECONDS_BELOW else ("nano", 10**6)
            raise ValueError(
                f"a time must be in milliseconds since the epoch, and {time} looks like {unit}seconds "
                f"(divide it by {factor}); in milliseconds it is after the year 9999"
            )
        return Millis(time)
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone: use datetime(..., tzinfo=UTC)")
    return Millis((time - EPOCH) // timedelta(milliseconds=1))


def as_datetime(time: Millis) -> datetime:
    """Return a time in ms since the epoch as a datetime, which nobody takes for seconds."""
    return EPOCH + timedelta(milliseconds=time)

"""Checks of arguments of `Admin` that Python would accept but that are surely mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import Millis, TopicPartition


def strings(name: str, values: Iterable[str]) -> list[str]:
    """Return the values as a list. Raises TypeError for a single string and for other values."""
    if isinstance(values, str | bytes):
        raise TypeError(f"{name} must be several strings, for instance [{values!r}], not {values!r}")
    found = list(values)
    for value in found:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be strings, not {value!r}")
    return found


def several(places: Iterable[TopicPartition | str]) -> list[TopicPartition | str]:
    """Return the places as a list. Raises TypeError for a single string, which belongs in a list."""
    if isinstance(places, str):
        raise TypeError(f"several places are expected, for instance [{places!r}], not {places!r}")
    return list(places)


def millis(time: datetime | int) -> Millis:
    """Return a time in ms since the epoch. Raises ValueError for a datetime without a time zone."""
    if not isinstance(time, datetime):
        return Millis(time)
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone: use datetime(..., tzinfo=UTC)")
    return Millis((time - _EPOCH) // timedelta(milliseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def refuse_negative(offsets: Mapping[TopicPartition, int | CommittedOffset | None]) -> None:
    """Raise ValueError for a negative offset."""
    for partition, wanted in offsets.items():
        offset = wanted.offset if isinstance(wanted, CommittedOffset) else wanted
        if offset is not None and offset < 0:
            raise ValueError(f"the offset of {partition} must be 0 or more, not {offset}")

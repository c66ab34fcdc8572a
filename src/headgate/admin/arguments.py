"""Checks of arguments of `Admin` that Python would accept but that are surely mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import TopicPartition


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


def refuse_negative(offsets: Mapping[TopicPartition, int | CommittedOffset | None]) -> None:
    """Raise ValueError for a negative offset."""
    for partition, wanted in offsets.items():
        offset = wanted.offset if isinstance(wanted, CommittedOffset) else wanted
        if offset is not None and offset < 0:
            raise ValueError(f"the offset of {partition} must be 0 or more, not {offset}")

"""Where a share-partition begins: the values of `share.auto.offset.reset`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:\.(?P<part>\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


class ResetStrategy(Enum):
    """The kind of a beginning."""

    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The beginning of a share-partition; `duration_ms` is 0 unless it is by duration."""

    strategy: ResetStrategy
    duration_ms: int = 0


def parse_reset(text: str) -> OffsetReset:
    """Return the beginning that a text names. Raises ValueError."""
    if text.startswith(_BY_DURATION):
        return OffsetReset(ResetStrategy.BY_DURATION, _duration_ms(text.removeprefix(_BY_DURATION)))
    if text not in (ResetStrategy.EARLIEST.value, ResetStrategy.LATEST.value):
        raise ValueError(f"{text!r} is no beginning of a share-partition")
    return OffsetReset(ResetStrategy(text))


def why_invalid_reset(text: str) -> str | None:
    """Return what is expected instead of a text; None if it is valid."""
    try:
        parse_reset(text)
    except ValueError:
        return "earliest, latest, or by_duration: and a duration such as PT1H30M or P2D"
    return None


def _duration_ms(text: str) -> int:
    """Return an ISO 8601 duration in ms, in the form of Java's `Duration.parse`, which is not negative."""
    found = _DURATION.fullmatch(text)
    if found is None or text.upper() == "P":
        raise ValueError(f"{text!r} is no duration")
    days, hours, minutes, seconds = (
        int(found[name] or 0) for name in ("days", "hours", "minutes", "seconds")
    )
    part_ms = int((found["part"] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + part_ms

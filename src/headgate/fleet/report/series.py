"""Values over time: what a chart shows, and how the time is divided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

SECOND_MS = 1000
_INTERVALS_S = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
OTHERS: Final = None
"""The name of the series of all groups without one of their own. No group has it, whatever its id."""

Point = tuple[int, float | None]
"""A time in ms since the epoch, and the value there; None: there is none."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line or row of bars: those of a group, of all other groups (`OTHERS`), or without a name ("")."""

    name: str | None
    points: tuple[Point, ...]

    @property
    def label(self) -> str:
        """Return the name for readers."""
        return "all other groups" if self.name is OTHERS else shown(self.name)


NOTHING = Series("", ())
_LONGEST = 250
_END = 50


def shown(name: str) -> str:
    """Return a name as the page shows it: without control characters, and not longer than 250 characters.

    Clients choose names: of any length, and with signs that HTML forbids or that turn the text around.
    """
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _END - 1]}…{text[-_END:]}"


def interval_for(first_ms: int, last_ms: int, at_most: int = 120) -> int:
    """Return the shortest interval, in ms, that divides the time into so many at most."""
    span_s = (last_ms - first_ms) // SECOND_MS
    fitting = (each for each in _INTERVALS_S if span_s <= each * at_most)
    # Clients of old versions choose the times of their commits, and may be off by millions of years.
    return SECOND_MS * next(fitting, _INTERVALS_S[-1] * (span_s // (_INTERVALS_S[-1] * at_most) + 1))


def series_of(
    rows: Iterable[tuple[str | None, int, float | None]], names: Sequence[str | None]
) -> list[Series]:
    """Return one series for each name, from rows of name, time and value; names without a row have none."""
    found: dict[str | None, list[Point]] = {name: [] for name in names}
    for name, at, value in rows:
        found[name].append((at, value))
    return [Series(name, tuple(sorted(points))) for name, points in found.items() if points]


def filled(series: Series, interval_ms: int, first_ms: int, last_ms: int) -> Series:
    """Return a series of counts with a zero at each interval without a point."""
    known = dict(series.points)
    start = first_ms - first_ms % interval_ms
    return Series(series.name, tuple((at, known.get(at, 0)) for at in range(start, last_ms + 1, interval_ms)))


def counted(times: Iterable[int]) -> tuple[Series, int]:
    """Return how many of the times (ms) fall into each of some intervals, and the length of one, in ms."""
    known = sorted(times)
    if not known:
        return NOTHING, SECOND_MS
    interval = interval_for(known[0], known[-1], at_most=30)
    counts: dict[int, int] = {}
    for time in known:
        start = time - time % interval
        counts[start] = counts.get(start, 0) + 1
    bounds = (min(counts), max(counts))
    return filled(Series("", tuple(counts.items())), interval, *bounds), interval

"""Charts as SVG: pure functions from series to text. Colours are the page's, by class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from headgate.fleet.report.series import OTHERS, Series

WIDTH, HEIGHT = 760, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 16, 26
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
COLOURS = 8
"""Number of colours in the style sheet."""
_LABELS = 5
"""Number of times below a chart. A narrow screen has room for every other one."""


class Colours:
    """Numbers of colours: a name has the same one in every chart, as far as there are enough.

    Two series of one chart never have the same, unless it has more than there are.
    """

    def __init__(self) -> None:
        self._known: dict[str | None, int] = {OTHERS: COLOURS - 1}

    def of(self, series: Sequence[Series]) -> list[int]:
        """Return the colour of each series of one chart."""
        found: dict[str | None, int] = {}
        for each in series:
            known = self._known.get(each.name)
            if known is not None and known not in found.values():
                found[each.name] = known
        for each in series:
            if each.name not in found:
                free = [number for number in range(COLOURS) if number not in found.values()]
                unused = [number for number in free if number not in self._known.values()]
                found[each.name] = next(iter(unused or free), 0)
                self._known.setdefault(each.name, found[each.name])
        return [found[each.name] for each in series]


def lines(series: Sequence[Series], colours: Sequence[int], *, steps: bool = False) -> str:
    """Return a chart with one line for each series; with `steps`, a value holds until the next."""
    frame = _Frame(series)
    return _svg(
        frame,
        [
            f'<path class="line c{colour}" d="{_path(each, frame, steps=steps)}"/>'
            for each, colour in zip(series, colours, strict=True)
        ],
    )


def bars(series: Sequence[Series], colours: Sequence[int], interval_ms: int) -> str:
    """Return a chart with the values of all series on top of each other, at each interval."""
    frame = _Frame(series, interval_ms, is_stacked=True)
    width = max(frame.x(frame.first + interval_ms) - frame.x(frame.first) - 1, 1)
    heights: dict[int, float] = {}
    drawn = []
    for each, colour in zip(series, colours, strict=True):
        for at, value in each.points:
            if not value:
                continue
            base = heights.get(at, 0)
            heights[at] = base + value
            top, bottom = frame.y(base + value), frame.y(base)
            title = escape(f"{each.label} {_day(at)} {_moment(at, frame.span)}: {value:g}".strip())
            drawn.append(
                f'<rect class="bar c{colour}" x="{frame.x(at):.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{max(bottom - top, 0.5):.1f}"><title>{title}</title></rect>'
            )
    return _svg(frame, drawn)


def legend(series: Sequence[Series], colours: Sequence[int]) -> str:
    """Return the names of the series with their colours; nothing for a single one without a name."""
    items = [
        f'<li><span class="swatch c{colour}"></span>{escape(each.label)}</li>'
        for each, colour in zip(series, colours, strict=True)
        if each.label
    ]
    return f'<ul class="legend">{"".join(items)}</ul>' if items else ""


class _Frame:
    """The place of times and values in the picture."""

    def __init__(self, series: Sequence[Series], interval_ms: int = 0, *, is_stacked: bool = False) -> None:
        times = [at for each in series for at, _ in each.points]
        self.first = min(times)
        self.last = max(*times, self.first + 1) + interval_ms
        self.span = self.last - self.first
        highest = _highest(series, is_stacked=is_stacked)
        self.step = _step(highest)
        self.top = max(math.ceil(highest / self.step), 1) * self.step

    def x(self, at: int) -> float:
        return _LEFT + (at - self.first) / self.span * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self.top * (HEIGHT - _TOP - _BOTTOM)


def _highest(series: Sequence[Series], *, is_stacked: bool) -> float:
    if not is_stacked:
        return max((value or 0 for each in series for _, value in each.points), default=0)
    sums: dict[int, float] = {}
    for each in series:
        for at, value in each.points:
            sums[at] = sums.get(at, 0) + (value or 0)
    return max(sums.values(), default=0)


def _step(highest: float) -> int:
    """Return the distance of the lines of the grid: a round number, with at most five of them."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if highest <= 5 * factor * power:
                return factor * power
        power *= 10


def _path(series: Series, frame: _Frame, *, steps: bool) -> str:
    words: list[str] = []
    is_open = False
    for at, value in series.points:
        if value is None:
            is_open = False
            continue
        x, y = f"{frame.x(at):.1f}", f"{frame.y(value):.1f}"
        if not is_open:
            words.append(f"M{x} {y}h0")  # a dot, if there is no other point before the next gap
        elif steps:
            words.append(f"H{x}V{y}")
        else:
            words.append(f"L{x} {y}")
        is_open = True
    if steps and is_open:
        words.append(f"H{frame.x(frame.last):.1f}")
    return "".join(words)


def _svg(frame: _Frame, drawn: Sequence[str]) -> str:
    parts = [*_values(frame), *_times(frame), *drawn]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _values(frame: _Frame) -> Iterator[str]:
    for value in range(0, frame.top + 1, frame.step):
        y = frame.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>'


def _times(frame: _Frame) -> Iterator[str]:
    shown = ""
    for number in range(_LABELS):
        at = frame.first + frame.span * number // (_LABELS - 1)
        anchor = "start" if number == 0 else "end" if number == _LABELS - 1 else "middle"
        name = ' class="between"' if number % 2 else ""
        text = _moment(at, frame.span)
        if text == shown:
            continue
        shown = text
        yield f'<text{name} x="{frame.x(at):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{text}</text>'
    if frame.span < _HOUR_MS:
        yield f'<text class="day" x="{_LEFT}" y="{_TOP}">{_day(frame.first)}</text>'


def _moment(at: int, span: int) -> str:
    form = "%H:%M:%S" if span < _HOUR_MS else "%m-%d %H:%M" if span < 10 * _DAY_MS else "%Y-%m-%d"
    return _date(at).strftime(form)


def _day(at: int) -> str:
    return f"{_date(at):%Y-%m-%d}"


def _date(at: int) -> datetime:
    try:
        return datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def short(value: float) -> str:
    """Return a number for people: 1.5k, 20M."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"

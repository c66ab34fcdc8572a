"""The chart of a pause: the flights of each airport on the boards, by second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from demo.chart import FAINT, INK, RED

BREAK_S = 1.5
_COLORS = ("#1f6f8b", "#e09f3e", "#5b7f5b")


def draw(
    seen: Sequence[tuple[float, int, int]],
    airports: Sequence[str],
    held: int,
    released_at: float,
    resumed_at: float,
    file: Path,
) -> None:
    """Draw sightings (seconds, partition, offset; in the order of time) into a PNG file."""
    origin = seen[0][0]
    with mpl.rc_context(
        {"font.size": 11, "axes.edgecolor": FAINT, "text.color": INK, "axes.labelcolor": INK}
    ):
        figure, axes = plt.subplots(figsize=(12, 5.6))
        for partition, airport in enumerate(airports):
            points = [(at - origin, offset) for at, where, offset in seen if where == partition]
            axes.plot(
                *_columns(points),
                color=_COLORS[partition],
                linewidth=3.2 if partition == held else 2.0,
                solid_capstyle="round",
            )
            axes.annotate(f" {airport}", xy=points[-1], color=_COLORS[partition], weight="bold", va="center")
        axes.axvspan(released_at - origin, resumed_at - origin, color=RED, alpha=0.12, linewidth=0)
        axes.annotate(
            f"{airports[held]} is paused",
            xy=(released_at - origin, axes.get_ylim()[1] * 0.96),
            xytext=(6, 0),
            textcoords="offset points",
            va="top",
            color=RED,
            weight="bold",
        )
        axes.set_xlabel("seconds")
        axes.set_ylabel("offset of the flight that is read")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6eaed")
        axes.set_axisbelow(True)
        axes.tick_params(colors=FAINT, labelcolor=INK)
        axes.margins(x=0.06)
        figure.text(
            0.085,
            0.93,
            f"{airports[held]} is paused, set back and resumed; nobody else waits",
            fontsize=17,
            weight="bold",
        )
        figure.subplots_adjust(left=0.085, right=0.98, top=0.885, bottom=0.1)
        figure.savefig(file, dpi=150, facecolor="white")
        plt.close(figure)


def _columns(points: Sequence[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """Return the points as two columns, with a break wherever nothing was read for a while."""
    times: list[float] = []
    offsets: list[float] = []
    for at, offset in points:
        if times and at - times[-1] > BREAK_S:
            times.append(at)
            offsets.append(math.nan)
        times.append(at)
        offsets.append(float(offset))
    return times, offsets

"""The chart: the lag and the commit rate of the group, with the crash marked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import FuncFormatter

from demo.story import LIBRARIES

LAG_STEP = "250ms"
"""The interval of the lag table: without a row, nothing changed."""

INK = "#22303c"
FAINT = "#8a97a3"
RED = "#c8372d"
SHADES = {
    "confluent-kafka": ("#1f6f8b", "#57a0b8"),
    "kafka-python": ("#e09f3e", "#f0c57f"),
    "aiokafka": ("#5b7f5b", "#95b595"),
}
NOBODY = ("#777777", "#aaaaaa")


@dataclass(frozen=True, slots=True)
class Crash:
    """The times when the broker was killed, and when it answered again (UTC)."""

    at: pd.Timestamp
    back_at: pd.Timestamp


@dataclass(frozen=True, slots=True)
class Facts:
    """The data of the chart: tables with the columns of `headgate.spark.schemas`, rows of one group."""

    lag: pd.DataFrame
    commits: pd.DataFrame
    rebalances: pd.DataFrame
    owners: dict[int, str]
    """The client library that reads each partition."""
    crash: Crash


def draw(facts: Facts, file: Path) -> None:
    """Draw the chart into a PNG file."""
    origin = facts.lag["at"].min().floor("s")

    def seconds(times: Any) -> Any:
        return (times - origin) / pd.Timedelta(seconds=1)

    with mpl.rc_context(
        {"font.size": 11, "axes.edgecolor": FAINT, "text.color": INK, "axes.labelcolor": INK}
    ):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(12, 7.2), sharex=True, gridspec_kw={"height_ratios": [3, 1.15], "hspace": 0.12}
        )
        _draw_lag(above, facts, seconds)
        _draw_commits(below, facts, seconds)
        for axes in (above, below):
            _mark_crash(axes, seconds(facts.crash.at), seconds(facts.crash.back_at))
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color="#e6eaed")
            axes.set_axisbelow(True)
            axes.tick_params(colors=FAINT, labelcolor=INK)
        _label_crash(above, seconds(facts.crash.at), seconds(facts.crash.back_at))
        figure.text(
            0.085, 0.955, "One group, three client libraries, one kill -9", fontsize=17, weight="bold"
        )
        figure.text(
            0.085,
            0.918,
            "Flights the group had not yet committed, out of the coordinator's own log by Spark",
            fontsize=11.5,
            color=FAINT,
        )
        figure.subplots_adjust(left=0.085, right=0.98, top=0.885, bottom=0.075)
        figure.savefig(file, dpi=150, facecolor="white")
        plt.close(figure)


def _colors(partitions: list[int], owners: dict[int, str]) -> dict[int, str]:
    """Return the colors: one for each library, with its partitions alternately darker and lighter."""
    turns: dict[str, int] = {}
    colors = {}
    for partition in partitions:
        owner = owners.get(partition, "")
        turn = turns[owner] = turns.get(owner, -1) + 1
        colors[partition] = SHADES.get(owner, NOBODY)[turn % 2]
    return colors


def _draw_lag(axes: Any, facts: Facts, seconds: Any) -> None:
    lag = facts.lag.copy()
    # Before the group's first commit, all flights are lag.
    lag["lag"] = lag["lag"].fillna(lag["end_offset"]).fillna(0)
    table = lag.pivot_table(index="at", columns="partition", values="lag", aggfunc="last")
    table = table.reindex(pd.date_range(table.index[0], table.index[-1], freq=LAG_STEP)).ffill().fillna(0)
    order = sorted(table.columns, key=lambda partition: _rank(facts.owners.get(partition, "")))
    colors = _colors(order, facts.owners)
    axes.stackplot(
        seconds(table.index),
        *(table[partition] for partition in order),
        colors=[colors[partition] for partition in order],
        labels=[f"{facts.owners.get(partition, '?')}, partition {partition}" for partition in order],
        linewidth=0,
    )
    axes.set_ylabel("flights behind")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylim(0, table.sum(axis=1).max() * 1.22)
    axes.margins(x=0.01)
    legend = axes.legend(loc="upper left", ncols=1, frameon=False, fontsize=9.5, reverse=True)
    legend.set_zorder(5)


def _rank(library: str) -> int:
    return LIBRARIES.index(library) if library in LIBRARIES else len(LIBRARIES)


def _draw_commits(axes: Any, facts: Facts, seconds: Any) -> None:
    commits = facts.commits.assign(owner=[facts.owners.get(one, "") for one in facts.commits["partition"]])
    table = commits.pivot_table(index="at", columns="owner", values="commits", aggfunc="sum").fillna(0)
    base = 0
    for owner in sorted(table.columns, key=_rank):
        axes.bar(
            seconds(table.index) + 0.5,
            table[owner],
            width=0.86,
            bottom=base,
            color=SHADES.get(owner, NOBODY)[0],
        )
        base = base + table[owner]
    axes.set_ylabel("commits per second")
    axes.set_xlabel("seconds since the first flight was produced")


def _mark_crash(axes: Any, at: float, back_at: float) -> None:
    axes.axvspan(at, back_at, color=RED, alpha=0.14, linewidth=0)
    axes.axvline(at, color=RED, linewidth=1.6)


def _label_crash(axes: Any, at: float, back_at: float) -> None:
    top = axes.get_ylim()[1]
    axes.annotate(
        f"kill -9\nback after {back_at - at:.1f} s",
        xy=(back_at, top * 0.965),
        xytext=(6, 0),
        textcoords="offset points",
        va="top",
        color=RED,
        weight="bold",
        fontsize=11,
    )

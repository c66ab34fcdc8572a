"""The result of a run: medians, ratios, a table for people and a JSON object for programs."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from rich.table import Table

from bench.figures import Effort, Figure
from bench.measures import Measure
from bench.peers import Durability, Peer


@dataclass
class Row:
    """One measure at one durability: the values of every round, by peer."""

    measure: Measure
    durability: Durability
    figures: dict[str, list[Figure]] = field(default_factory=dict)

    def value(self, peer: str) -> float | None:
        """Return the median of the rounds, in the measure's unit."""
        figures = self.figures.get(peer)
        return median(figure.value for figure in figures) if figures else None

    def p99_ms(self, peer: str) -> float | None:
        """Return the median of the rounds' 99th percentiles."""
        known = [figure.p99_ms for figure in self.figures.get(peer, []) if figure.p99_ms is not None]
        return median(known) if known else None

    def processor_us(self, peer: str) -> float | None:
        """Return the median of the broker's processor time of one request, offset or record."""
        figures = self.figures.get(peer, [])
        known = [figure.processor_us for figure in figures if figure.processor_us is not None]
        return median(known) if known else None

    def ratio(self, peer: str, other: str) -> float | None:
        """Return how many times faster `peer` is than `other`, or how many times less it takes."""
        ours, theirs = self.value(peer), self.value(other)
        if not ours or not theirs:
            return None
        return theirs / ours if self.measure.is_cost else ours / theirs


@dataclass
class Report:
    """The result of a run, and its environment."""

    rounds: int
    effort: Effort
    peers: list[Peer] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    took_s: float = 0.0


def as_table(report: Report) -> Table:
    """Return a table: a row for each measure and durability, a column for each peer, latency in brackets."""
    title = f"medians of {report.rounds} interleaved rounds of {report.effort.seconds:g} s (p99 in ms)"
    table = _table(report, title, ["measure", "durability", "unit"])
    table.add_column("headgate / kafka", justify="right")
    table.caption = _caption(report)
    names = [peer.name for peer in report.peers]
    for row in report.rows:
        ratio = row.ratio("headgate", "kafka")
        table.add_row(
            row.measure.title,
            row.durability.value,
            row.measure.unit,
            *(_cell(row, name) for name in names),
            "-" if ratio is None else f"[{'green' if ratio >= 1 else 'yellow'}]{ratio:.2f}[/]",
            end_section=_ends_section(report, row),
        )
    return table


def as_processor_table(report: Report) -> Table:
    """Return the broker's processor time of each answer: the value that other load disturbs least."""
    title = "the processor time of one request, offset, record or assignment, in microseconds"
    table = _table(report, title, ["measure", "durability"])
    for row in report.rows:
        costs = [row.processor_us(peer.name) for peer in report.peers]
        table.add_row(
            row.measure.title,
            row.durability.value,
            *("-" if cost is None else f"{cost:.2f}" for cost in costs),
            end_section=_ends_section(report, row),
        )
    return table


def _table(report: Report, title: str, columns: list[str]) -> Table:
    table = Table(title=title, caption_justify="left")
    for column in columns:
        table.add_column(column)
    for peer in report.peers:
        table.add_column(peer.name, justify="right")
    return table


def _ends_section(report: Report, row: Row) -> bool:
    after = report.rows[report.rows.index(row) + 1 :]
    return bool(after) and after[0].durability is not row.durability


def as_json(report: Report) -> dict[str, Any]:
    """Return the numbers with every round."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "rounds": report.rounds,
        "effort": asdict(report.effort),
        "took_s": round(report.took_s, 1),
        "peers": {peer.name: peer.note for peer in report.peers},
        "absent": report.absent,
        "failures": report.failures,
        "measures": [_row_as_json(row) for row in report.rows],
    }


def _row_as_json(row: Row) -> dict[str, Any]:
    ratio = row.ratio("headgate", "kafka")
    return {
        "name": row.measure.name,
        "title": row.measure.title,
        "durability": row.durability.value,
        "unit": row.measure.unit,
        "medians": {name: round(row.value(name) or 0.0, 1) for name in row.figures},
        "p99_ms": {name: row.p99_ms(name) for name in row.figures},
        "processor_us": {name: row.processor_us(name) for name in row.figures},
        "headgate_to_kafka": None if ratio is None else round(ratio, 3),
        "rounds": {name: [asdict(figure) for figure in figures] for name, figures in row.figures.items()},
    }


def _cell(row: Row, name: str) -> str:
    value, p99_ms = row.value(name), row.p99_ms(name)
    if value is None:
        return "-"
    figure = f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return figure if p99_ms is None else f"{figure} ({p99_ms:.2f})"


def _caption(report: Report) -> str:
    lines = [f"{peer.name}: {peer.note}" for peer in report.peers if peer.note]
    lines += [f"without {name}: {why}" for name, why in report.absent.items()]
    return "\n".join(lines)

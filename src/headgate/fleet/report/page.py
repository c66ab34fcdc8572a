"""The page: one HTML file without scripts or anything from elsewhere: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files

from headgate.domain.wording import counted
from headgate.fleet.audit import Audited
from headgate.fleet.facts import GroupFacts
from headgate.fleet.report import charts
from headgate.fleet.report.gather import Report
from headgate.fleet.report.series import Series, shown
from headgate.fleet.rules import Finding

MOST_ROWS = 200
"""Number of groups with findings that the page lists."""

_COLUMNS = ("Group", "Findings", "Type", "State", "Offsets", "Lag", "Last commit", "First expiry")
_NOTHING = '<p class="nothing">Nothing of this is in the log.</p>'
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def page(report: Report) -> str:
    """Return the report as HTML."""
    style = files("headgate.fleet.report").joinpath("style.css").read_text(encoding="utf-8")
    title = f"Consumer groups of {shown(report.source)}"
    body = "\n".join(_sections(report))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _sections(report: Report) -> Iterator[str]:
    colours = charts.Colours()

    def lines(series: Sequence[Series], *, steps: bool = False) -> str:
        if not _has_points(series):
            return _NOTHING
        numbers = colours.of(series)
        return charts.lines(series, numbers, steps=steps) + charts.legend(series, numbers)

    def bars(series: Sequence[Series], interval_ms: int) -> str:
        if not _has_points(series):
            return _NOTHING
        numbers = colours.of(series)
        return charts.bars(series, numbers, interval_ms) + charts.legend(series, numbers)

    yield f'<p class="when">{_span(report)}</p>'
    yield _tiles(report)
    yield _section("Findings", _findings(report.audited))
    every = _each(report.interval_ms)
    if report.lag is not None:
        yield _section(f"Lag at the end of {every}, in records", lines(report.lag))
    yield _section(f"Commits of partitions in {every}", bars(report.commits, report.interval_ms))
    yield _section(f"Rebalances in {every}", bars(report.rebalances, report.interval_ms))
    yield _section("Members", lines(report.members, steps=True))
    heading = f"Groups whose first offset expires in {_each(report.expiry_interval_ms)}, if nothing changes"
    yield _section(heading, bars((report.expiries,), report.expiry_interval_ms))


def _span(report: Report) -> str:
    made = f"Made at {_moment(report.made_at)}."
    if report.first_at is None or report.last_at is None:
        return f"{made} The log has no commits."
    return f"{made} Commits from {_moment(report.first_at)} to {_moment(report.last_at)}. All times in UTC."


def _section(heading: str, content: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>"


def _tiles(report: Report) -> str:
    found = Counter(finding for each in report.audited for finding in each.findings)
    offsets = sum(each.facts.offset_count for each in report.audited)
    tiles = [
        ("groups", len(report.audited), ""),
        ("committed offsets", offsets, ""),
        ("commits in the log", report.commit_count, ""),
        *((str(finding), found[finding], "found") for finding in Finding if found[finding]),
    ]
    items = (
        f'<li class="{kind}"><b>{charts.short(value) if value >= 10_000 else value}</b>{escape(text)}</li>'
        for text, value, kind in tiles
    )
    return f'<ul class="tiles">{"".join(items)}</ul>'


def _findings(audited: Sequence[Audited]) -> str:
    found = [each for each in audited if each.findings]
    lacking = {where for each in audited for where in each.facts.unknown_ends}
    unknown = f"<p>{counted(len(lacking), 'partition')} without a known end: no lag is known there.</p>"
    without = unknown if lacking else ""
    if not found:
        return f'<p class="nothing">Nothing remarkable.</p>{without}'
    found.sort(key=lambda each: (list(Finding).index(each.findings[0]), -(each.facts.lag or 0)))
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(map(_row, found[:MOST_ROWS]))
    rest = len(found) - MOST_ROWS
    more = f'<p class="nothing">And {counted(rest, "more group")}.</p>' if rest > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="wide">{table}</div>{more}{without}'


def _row(each: Audited) -> str:
    facts = each.facts
    words = "".join(f'<span class="finding {finding}">{finding}</span>' for finding in each.findings)
    cells: Iterable[tuple[str, str]] = (
        (escape(shown(facts.group_id)), "name"),
        (words, "findings"),
        (escape(facts.group_type), ""),
        (escape(facts.state), ""),
        (f"{facts.offset_count:,}", "number"),
        (_lag(facts), "number"),
        (_moment(facts.last_commit_at), "time"),
        (_moment(facts.first_expiry_at), "time"),
    )
    return "<tr>" + "".join(f'<td class="{kind}">{text}</td>' for text, kind in cells) + "</tr>"


def _lag(facts: GroupFacts) -> str:
    if facts.lag is None:
        return "unknown"
    return f"at least {facts.lag:,}" if facts.unknown_ends else f"{facts.lag:,}"


def _has_points(series: Sequence[Series]) -> bool:
    return any(each.points for each in series)


def _each(interval_ms: int) -> str:
    """Return `each minute`, `each 5 minutes`."""
    size, unit = next((one for one in _UNITS if interval_ms % one[0] == 0), _UNITS[-1])
    count = interval_ms // size
    return f"each {unit}" if count == 1 else f"each {count} {unit}s"


def _moment(time: int | None) -> str:
    if time is None:
        return "–"
    try:
        return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "far away"

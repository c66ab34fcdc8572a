"""`headgate lag`: how far groups are behind, and whether they catch up."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.connecting import ConnectingAndPrinting, check_output, run_with_admin
from headgate.cli.option_classes import takes_options
from headgate.cli.usage_problem import UsageProblem

if TYPE_CHECKING:
    from headgate.admin import Admin, Position
    from headgate.cli.printing import Row

INTERVAL_S = 5.0
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
_COLUMNS = (
    "group",
    "topic",
    "partitions",
    "lag",
    "largest_lag",
    "members",
    "produced",
    "consumed",
    "behind_s",
)
_RATES = ("produced", "consumed", "behind_s")


@dataclass(frozen=True, kw_only=True)
class Options(ConnectingAndPrinting):
    """The options of `headgate lag`."""

    group: Annotated[
        list[str], typer.Option("--group", metavar="ID", help="This group. Can be repeated; by default all.")
    ] = field(default_factory=list)
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="TOPIC", help="Only this topic. Can be repeated.")
    ] = field(default_factory=list)
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C, and tell rates, too.")] = False
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="S", min=0.1, help="With --watch: seconds between two looks."),
    ] = INTERVAL_S
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="With --watch: stop after N looks.")
    ] = None
    above: Annotated[
        int | None, typer.Option("--above", metavar="N", min=0, help="Only what is behind by more records.")
    ] = None


@dataclass(frozen=True, slots=True)
class Look:
    """The sums of a group's positions in one topic."""

    group_id: str
    topic: str
    partitions: int
    lag: int | None
    """None: unknown in all partitions."""
    largest_lag: int | None
    unknown: int
    """Partitions whose lag is unknown: nothing committed, or the partition is gone."""
    members: int
    committed: Mapping[int, int]
    ends: Mapping[int, int]


@takes_options(Options)
def lag(options: Options) -> None:
    """Show how many records groups are behind.

    A row for each group and topic, the largest lag first. `headgate consumer-groups --describe` has the
    partitions. With --watch the rates of the last interval, in records a second: what was produced, what was
    consumed, and how many seconds it takes at these rates until the group has caught up.

    headgate lag --watch

    headgate lag --group billing --above 1000 --output json

    The command works with Headgate and Kafka. With --above the exit code is 3 if there is such a group.
    """
    raise typer.Exit(run_with_admin(options, lambda admin: _run(admin, options)))


FOUND = 3
"""Exit code of --above if something is behind by more."""


def _run(admin: Admin, options: Options) -> int:
    check_output(options.output)
    if options.count is not None and not options.watch:
        raise UsageProblem("--count goes with --watch")
    if not options.watch:
        looks, is_missing = _looks(admin, options)
        return max(_print(looks, None, 0.0, options), 1 if is_missing else 0)
    before: dict[tuple[str, str], Look] | None = None
    looked_at = time.monotonic()
    number = 0
    while True:
        now = time.monotonic()
        looks, _ = _looks(admin, options)
        code = _print(looks, before, now - looked_at, options)
        number += 1
        if number == options.count:
            return code
        before, looked_at = {(one.group_id, one.topic): one for one in looks}, now
        time.sleep(options.interval)


# --- what there is ---


def _looks(admin: Admin, options: Options) -> tuple[list[Look], bool]:
    """Return what there is, and whether a group of --group does not exist."""
    from headgate.cli.printing import say

    listed = [one.group_id for one in admin.list_groups() if one.protocol_type in ("consumer", "")]
    missing = [group_id for group_id in options.group if group_id not in listed]
    for group_id in missing:
        say(f"there is no consumer group called {group_id}; `headgate groups --list` lists all groups")
    wanted = [one for one in options.group or listed if one not in missing]
    return [look for group_id in wanted for look in _looks_at(admin, group_id, options)], bool(missing)


def _looks_at(admin: Admin, group_id: str, options: Options) -> Iterable[Look]:
    by_topic: dict[str, list[Position]] = {}
    for position in admin.positions(group_id):
        if not options.topic or position.partition.topic in options.topic:
            by_topic.setdefault(position.partition.topic, []).append(position)
    for topic, positions in by_topic.items():
        yield _look(group_id, topic, positions)


def _look(group_id: str, topic: str, positions: list[Position]) -> Look:
    lags = [one.lag for one in positions if one.lag is not None]
    return Look(
        group_id=group_id,
        topic=topic,
        partitions=len(positions),
        lag=sum(lags) if lags else None,
        largest_lag=max(lags, default=None),
        unknown=len(positions) - len(lags),
        members=len({one.member.member_id for one in positions if one.member is not None}),
        committed={one.partition.partition: one.committed.offset for one in positions if one.committed},
        ends={
            one.partition.partition: one.log_end_offset for one in positions if one.log_end_offset is not None
        },
    )


# --- output ---


def _print(
    looks: list[Look], before: Mapping[tuple[str, str], Look] | None, seconds: float, options: Options
) -> int:
    from headgate.cli.printing import print_json_line, print_rows

    kept = [one for one in looks if options.above is None or (one.lag or 0) > options.above]
    kept.sort(key=lambda one: (-(one.lag if one.lag is not None else -1), one.group_id, one.topic))
    rows = [_row(one, (before or {}).get((one.group_id, one.topic)), seconds) for one in kept]
    columns = _COLUMNS if options.watch else tuple(name for name in _COLUMNS if name not in _RATES)
    rows = [{name: row[name] for name in (*columns, "unknown")} for row in rows]
    if options.watch and options.output == "json":
        print_json_line({"time_ms": time.time_ns() // 1_000_000, "lags": rows})
    else:
        if options.watch and options.output == "table":
            print(_heading(options), end="")
        print_rows(rows, columns, "lags", options.output)
    sys.stdout.flush()
    return FOUND if options.above is not None and rows else 0


def _heading(options: Options) -> str:
    """Return what begins a look: on a terminal it replaces the one before."""
    text = f"{time.strftime('%H:%M:%S')}  every {options.interval:g} s, Ctrl-C ends it\n"
    return _CLEAR + text if sys.stdout.isatty() else f"\n{text}"


def _row(look: Look, before: Look | None, seconds: float) -> Row:
    produced = _rate(before.ends if before else {}, look.ends, seconds)
    consumed = _rate(before.committed if before else {}, look.committed, seconds)
    return {
        "group": look.group_id,
        "topic": look.topic,
        "partitions": look.partitions,
        "lag": look.lag,
        "largest_lag": look.largest_lag,
        "unknown": look.unknown,
        "members": look.members,
        "produced": produced,
        "consumed": consumed,
        "behind_s": _seconds_behind(look.lag, produced, consumed),
    }


def _rate(before: Mapping[int, int], now: Mapping[int, int], seconds: float) -> float | None:
    """Return the records a second by which the offsets rose; None: unknown."""
    both = before.keys() & now.keys()
    if not both or seconds <= 0:
        return None
    return round(sum(now[one] - before[one] for one in both) / seconds, 1)


def _seconds_behind(lag: int | None, produced: float | None, consumed: float | None) -> int | None:
    """Return when the group has caught up at these rates; None: never, or unknown."""
    if lag == 0:
        return 0
    if lag is None or produced is None or consumed is None or consumed <= produced:
        return None
    return round(lag / (consumed - produced))

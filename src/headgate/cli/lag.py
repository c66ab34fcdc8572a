"""`headgate lag`: how far groups are behind, and whether they catch up."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from headgate.cli.connecting import ConnectingAndPrinting, check_output, run_with_admin
from headgate.cli.option_classes import takes_options
from headgate.cli.usage_problem import UsageProblem

if TYPE_CHECKING:
    from headgate.admin import Admin, ClientError, GroupDescription, Position
    from headgate.admin.survey import Surveyor
    from headgate.cli.printing import Row
    from headgate.domain.ids import GroupId

INTERVAL_S = 5.0
_EMPTY = "Empty"
_CLEAR = "\x1b[H\x1b[2J"
_OTHER_LINES = 4
"""Of a look on a terminal: two headings, the number of further rows, and the line of the cursor."""
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
    if options.watch:
        return _Watch(admin, options).run()
    looks, problems, idle = _looks(admin, options)
    code = _print(looks, None, 0.0, options)
    _say(
        f"group {one.group_id} has no offsets, and no partition is assigned: it is {one.state}"
        for one in idle
    )
    read = {one.topic for one in looks}
    which = "none of these groups reads" if options.group else "no group reads"
    unread = [topic for topic in options.topic if topic not in read]
    known = set(admin.topics()) if unread else set()
    _say(f"{which} topic {topic}" if topic in known else _no_topic(topic, known) for topic in unread)
    _say(problems)
    return max(code, 1 if problems or not known.issuperset(unread) else 0)


def _no_topic(topic: str, known: Iterable[str]) -> str:
    from headgate.domain.wording import did_you_mean

    hint = did_you_mean(topic, known)
    return f"topic {topic} does not exist" + (f"; {hint}" if hint else "")


class _Watch:
    """Looks again and again. What is wrong is said once, and the next look is made all the same."""

    def __init__(self, admin: Admin, options: Options) -> None:
        self.admin = admin
        self.options = options
        self.before: dict[tuple[str, str], Look] | None = None
        self.looked_at = 0.0
        self.said: list[str] = []
        """What was wrong at the last look."""

    def run(self) -> int:
        """Look until Ctrl-C or --count; return the exit code of the last look."""
        number = 0
        while True:
            code = self._look()
            number += 1
            if number == self.options.count:
                return code
            time.sleep(self.options.interval)

    def _look(self) -> int:
        """Print one look. An error of the first one is raised: the address is probably wrong."""
        from headgate.cli.advice import in_words
        from headgate.client.errors import ClientError

        now = time.monotonic()
        try:
            looks, problems, _ = _looks(self.admin, self.options)
        except ClientError as error:
            if self.before is None or not _may_pass(error):
                raise
            self._tell([f"{in_words(error)}; looking again every {self.options.interval:g} s"])
            return 1
        code = _print(looks, self.before, now - self.looked_at, self.options)
        self.before, self.looked_at = {(one.group_id, one.topic): one for one in looks}, now
        self._tell(problems)
        return max(code, 1 if problems else 0)

    def _tell(self, problems: list[str]) -> None:
        """Say what is wrong now, unless it was said at the last look; and that nothing is any more."""
        new = problems if problems != self.said else []
        if self.said and not problems:
            new = ["the cluster answers again"]
        self.said = problems
        _say([f"{time.strftime('%H:%M:%S')} {text}" for text in new])


def _may_pass(error: ClientError) -> bool:
    """Tell whether a later look can succeed, such as when a broker has restarted."""
    from headgate.client.errors import BadResponse, ConnectionFailed, RequestRefused, RequestTimedOut

    if isinstance(error, RequestRefused):
        return error.is_retriable
    return isinstance(error, (BadResponse, ConnectionFailed, RequestTimedOut))


def _say(problems: Iterable[str]) -> None:
    from headgate.cli.printing import say

    for problem in problems:
        say(problem)


# --- what there is ---


class _Found(NamedTuple):
    """What there is of groups."""

    looks: list[Look]
    problems: list[str]
    """What is missing: a group of --group, or the answer of a node."""
    idle: list[GroupDescription]
    """Groups of --group with nothing committed and no partition assigned."""


def _looks(admin: Admin, options: Options) -> _Found:
    """Return what there is."""
    from headgate.admin.survey import Surveyor
    from headgate.cli.absent_groups import of_other_kind
    from headgate.cli.incomplete import gaps
    from headgate.domain.ids import GroupId
    from headgate.domain.wording import did_you_mean

    surveyor = Surveyor(admin.cluster)
    if not options.group:
        listings = surveyor.listings()
        wanted = [one.group_id for one in listings]
        active = surveyor.descriptions(one.group_id for one in listings if one.state != _EMPTY)
        return _Found(_survey(surveyor, wanted, active, set(options.topic)), list(gaps(surveyor)), [])
    described = surveyor.descriptions(dict.fromkeys(map(GroupId, options.group)))
    there = {group_id: one for group_id, one in described.items() if one is not None and _is_consumer(one)}
    absent = [group_id for group_id in described if group_id not in there]
    shares = surveyor.share_groups(group_id for group_id in absent if described[group_id] is None)
    unknown = [one for one in absent if one not in shares and one not in surveyor.failed]
    missing = [of_other_kind(group_id, is_share=True) for group_id in sorted(shares)]
    known = [one.group_id for one in Surveyor(admin.cluster).listings()] if unknown else []
    for group_id in unknown:
        hint = did_you_mean(group_id, known) or "`headgate groups --list` lists all groups"
        missing.append(f"there is no consumer group called {group_id}; {hint}")
    looks = _survey(surveyor, list(there), there, set(options.topic))
    found = {one.group_id for one in looks} | surveyor.failed.keys()
    idle = [one for group_id, one in there.items() if group_id not in found]
    return _Found(looks, [*missing, *gaps(surveyor)], [] if options.topic else idle)


def _is_consumer(group: GroupDescription) -> bool:
    return group.protocol_type in ("consumer", "")


def _survey(
    surveyor: Surveyor,
    wanted: list[GroupId],
    described: Mapping[GroupId, GroupDescription | None],
    topics: set[str],
) -> list[Look]:
    """Return what there is of groups. Those with members are `described`; `topics`: only these, if any."""
    from headgate.admin.positions import positions_of, readers_of

    readers = {group_id: readers_of(one) for group_id, one in described.items()}
    committed = surveyor.committed(wanted)
    places = {where for part in (committed, readers) for of_group in part.values() for where in of_group}
    ends = surveyor.ends(where for where in places if not topics or where.topic in topics)
    return [
        look
        for group_id in wanted
        if group_id not in surveyor.failed
        for look in _looks_at(
            group_id,
            positions_of(committed.get(group_id, {}), readers.get(group_id, {}), ends, {}),
            topics,
        )
    ]


def _looks_at(group_id: str, positions: Iterable[Position], topics: set[str]) -> Iterator[Look]:
    by_topic: dict[str, list[Position]] = {}
    for position in positions:
        if not topics or position.partition.topic in topics:
            by_topic.setdefault(position.partition.topic, []).append(position)
    for topic, some in by_topic.items():
        yield _look(group_id, topic, some)


def _look(group_id: str, topic: str, positions: list[Position]) -> Look:
    # An offset beyond the end is no reserve for other partitions. As in the metric, nothing is left there.
    lags = [max(one.lag, 0) for one in positions if one.lag is not None]
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
    from headgate.cli.printing import print_csv, print_json_line, print_rows

    kept = [one for one in looks if options.above is None or (one.lag or 0) > options.above]
    kept.sort(key=lambda one: (-(one.lag if one.lag is not None else -1), one.group_id, one.topic))
    rows = [_row(one, (before or {}).get((one.group_id, one.topic)), seconds) for one in kept]
    columns = _COLUMNS if options.watch else tuple(name for name in _COLUMNS if name not in _RATES)
    rows = [{name: row[name] for name in (*columns, "unknown")} for row in rows]
    time_ms = time.time_ns() // 1_000_000
    if options.watch and options.output == "json":
        print_json_line({"time_ms": time_ms, "lags": rows})
    elif options.watch and options.output == "csv":
        timed = ({"time_ms": time_ms, **row} for row in rows)
        print_csv(timed, ("time_ms", *columns), has_heading=before is None)
    else:
        if options.watch:
            print(_heading(options), end="")
        shown = _that_fit(rows) if options.watch else rows
        print_rows(shown, columns, "lags", options.output)
        if len(shown) < len(rows):
            print(f"... and {len(rows) - len(shown)} more with less lag")
    sys.stdout.flush()
    return FOUND if options.above is not None and rows else 0


def _that_fit(rows: list[Row]) -> list[Row]:
    """Return the first rows, as many as a terminal has lines for; the largest lags would scroll away."""
    from headgate.cli.printing import has_escapes

    return rows[: max(shutil.get_terminal_size().lines - _OTHER_LINES, 1)] if has_escapes() else rows


def _heading(options: Options) -> str:
    """Return what begins a look: on a terminal it replaces the one before."""
    from headgate.cli.printing import has_escapes

    text = f"{time.strftime('%H:%M:%S')}  every {options.interval:g} s, Ctrl-C ends it\n"
    return _CLEAR + text if has_escapes() else f"\n{text}"


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

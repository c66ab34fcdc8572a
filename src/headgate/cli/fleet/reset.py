"""`headgate fleet reset`: plan the reset of many groups, and execute a plan."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.admin import Admin, ByDuration, ClientError, ShiftBy, Target, ToDatetime, ToEarliest, ToLatest
from headgate.admin.survey import Surveyor
from headgate.cli.absent_groups import is_share_group
from headgate.cli.connecting import (
    INTERRUPTED,
    ConnectingAndPrinting,
    check_output,
    connection_words,
    open_admin,
)
from headgate.cli.consumer_groups.arguments import parse_datetime, parse_duration
from headgate.cli.fleet.common import failed
from headgate.cli.incomplete import told_gaps
from headgate.cli.option_classes import takes_options
from headgate.cli.printing import Row, print_rows, say
from headgate.cli.progress import progress_bar
from headgate.cli.spark import interruption_without_stack
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.ids import GroupId
from headgate.domain.times import as_datetime
from headgate.domain.wording import counted

if TYPE_CHECKING:
    from headgate.fleet import Outcome, PlannedOffsets

_groups = partial(typer.Option, rich_help_panel="Groups: one of the first three")
_target = partial(typer.Option, rich_help_panel="New offsets: one of these makes a plan")

_PLANNED = ("group", "topic", "partition", "committed_offset", "new_offset")
_OUTCOMES = ("group", "result", "message")


@dataclass(frozen=True, kw_only=True)
class ChosenGroups:
    """The options that choose the groups, and their partitions."""

    group: Annotated[list[str], _groups("--group", metavar="ID", help="This group. Can be repeated.")] = (
        field(default_factory=list)
    )
    groups_matching: Annotated[
        str | None, _groups(metavar="REGEX", help="All groups whose whole id matches.")
    ] = None
    all_groups: Annotated[bool, _groups("--all-groups", help="All groups.")] = False
    topic: Annotated[
        list[str], _groups("--topic", metavar="TOPIC", help="Only partitions of this topic. Can be repeated.")
    ] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ChosenTarget:
    """The options that choose the new offsets: one of them makes a plan."""

    to_earliest: Annotated[bool, _target("--to-earliest", help="The start of the log.")] = False
    to_latest: Annotated[bool, _target("--to-latest", help="The end of the log.")] = False
    to_datetime: Annotated[
        str | None, _target(metavar="WHEN", help="The first record at or after 2026-11-21T08:30:00 (UTC).")
    ] = None
    by_duration: Annotated[
        str | None, _target(metavar="P1DT2H", help="The first record that is not older than this.")
    ] = None
    shift_by: Annotated[
        int | None, _target(metavar="N", help="N records after the committed offset; before it if negative.")
    ] = None
    from_table: Annotated[
        Path | None,
        _target(
            metavar="PATH",
            help="The offsets in a CSV or Parquet table: group_id, topic, partition, committed_offset.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ResetOptions(ConnectingAndPrinting, ChosenTarget, ChosenGroups):
    """All options of the reset, with their help."""

    plan: Annotated[
        Path, typer.Option(metavar="FILE.csv", help="The file of the plan: written, or executed.")
    ]
    execute: Annotated[bool, typer.Option("--execute", help="Execute the plan in the file.")] = False


@takes_options(ResetOptions)
def reset(options: ResetOptions) -> None:
    """Reset the offsets of many groups: write a plan, look at it, execute it.

    headgate fleet reset --all-groups --by-duration PT1H --plan plan.csv

    headgate fleet reset --plan plan.csv --execute

    The second command writes plan.undo.csv first, the plan that takes it back (plan.undo-2.csv, if the first
    is the undo of another plan). It may be repeated after any interruption: groups that are done stay as they
    are, and a group that committed since the plan is left alone.
    """
    again = "; run it again to go on" if options.execute else ""
    try:
        check_output(options.output)
        target = _target_of(options)
        with (
            interruption_without_stack(),
            open_admin(options.bootstrap_server, options.timeout, options.command_config) as admin,
        ):
            if options.execute:
                code = _execute(admin, options.plan, options.output)
            else:
                surveyor = Surveyor(admin.cluster)
                targets = _targets(surveyor, target, options)
                is_incomplete = told_gaps(surveyor)
                code = max(_plan(admin, targets, options), is_incomplete)
    except (UsageProblem, ValueError) as problem:
        raise failed(str(problem), 2) from problem
    except KeyboardInterrupt as interruption:
        raise failed(f"interrupted{again}", INTERRUPTED) from interruption
    except (ClientError, OSError) as problem:
        raise failed(f"{problem}{again}") from problem
    except ModuleNotFoundError as problem:
        raise failed(f"{problem}: pip install 'headgate[spark]'") from problem
    raise typer.Exit(code)


def _target_of(options: ResetOptions) -> Target | None:
    """Return the chosen target; None with --execute and --from-table. Raises UsageProblem."""
    chosen = {each.name: getattr(options, each.name) for each in fields(ChosenTarget)}
    given = [name for name, value in chosen.items() if value is not None and value is not False]
    if options.execute:
        if given:
            raise UsageProblem(
                f"--execute executes the plan in {options.plan}: make the plan first, without --execute"
            )
        if options.group or options.groups_matching is not None or options.all_groups or options.topic:
            raise UsageProblem(
                f"--execute executes all of the plan in {options.plan}: choose groups and topics when the "
                "plan is made, or remove lines from it"
            )
        return None
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise UsageProblem(f"one of {names} is needed to make a plan, or --execute")
    if options.to_earliest:
        return ToEarliest()
    if options.to_latest:
        return ToLatest()
    if options.to_datetime is not None:
        return ToDatetime(as_datetime(parse_datetime(options.to_datetime)))
    if options.by_duration is not None:
        return ByDuration(parse_duration(options.by_duration))
    return None if options.shift_by is None else ShiftBy(options.shift_by)


def _targets(surveyor: Surveyor, target: Target | None, options: ResetOptions) -> dict[str, Target]:
    """Return the groups to reset, each with its target. Raises UsageProblem.

    `gaps` of the surveyor tells whether some of them are missing.
    """
    from headgate.fleet.planning import read_targets

    named, pattern = options.group, options.groups_matching
    if [bool(named), pattern is not None, options.all_groups].count(True) > 1:
        raise UsageProblem("--group, --groups-matching and --all-groups exclude each other")
    if options.from_table is not None:
        if not options.from_table.exists():
            raise UsageProblem(f"--from-table {options.from_table}: there is no such file")
        targets = read_targets(options.from_table)
        # The groups are those of the table: one that the cluster no longer has gets its offsets back.
        chosen = list(dict.fromkeys(named)) if named else _matching(list(targets), pattern, " of the table")
        if missing := [each for each in chosen if each not in targets]:
            raise UsageProblem(f"--from-table {options.from_table}: there is no group {missing[0]}")
        return {each: targets[each] for each in chosen}
    if not (named or options.all_groups or pattern is not None):
        raise UsageProblem("--group, --groups-matching or --all-groups is needed")
    assert target is not None
    if named:
        wanted = list(dict.fromkeys(map(GroupId, named)))
        if absent := surveyor.absent(wanted):
            raise UsageProblem(f"group {min(absent)} does not exist")
        return {str(each): target for each in wanted if each not in surveyor.failed}
    resettable = [str(each.group_id) for each in surveyor.all_listings() if not is_share_group(each)]
    return dict.fromkeys(_matching(resettable, pattern), target)


def _matching(known: list[str], pattern: str | None, where: str = "") -> list[str]:
    if pattern is None:
        return known
    try:
        matches = re.compile(pattern).fullmatch
    except re.error as problem:
        raise UsageProblem(f"--groups-matching {pattern}: {problem}") from None
    found = [each for each in known if matches(each)]
    if not found:
        say(f"--groups-matching {pattern} matches no group{where}")
    return found


def _plan(admin: Admin, targets: dict[str, Target], options: ResetOptions) -> int:
    from headgate.fleet import Step, save_plan
    from headgate.fleet.planning import plan_resets

    path = options.plan
    planned: list[PlannedOffsets] = []
    refused: list[Outcome] = []
    seen: set[str] = set()
    with progress_bar("planning", len(targets)) as advance:
        for outcome in plan_resets(admin, targets, options.topic):
            advance()
            seen.update(place.topic for place in outcome.planned.new)
            if outcome.step is Step.DONE and outcome.message:
                say(f"group {outcome.planned.group_id}: {outcome.message}")
            if outcome.step is Step.DONE and outcome.planned.changes:
                planned.append(outcome.planned)
            elif outcome.step not in (Step.DONE, Step.ALREADY):
                refused.append(outcome)
    for outcome in refused:
        say(f"left out: {outcome.message}")
    for topic in options.topic or ():
        if topic not in seen and not refused:
            say(f"--topic {topic}: none of these groups has an offset in it")
    if not planned:
        if path.exists():  # an earlier plan, which nobody should take for this one
            save_plan(planned, path)
        print_rows([], _PLANNED, "offsets", options.output)
        say("nothing to change: no plan was written")
        return 1 if refused else 0
    save_plan(planned, path)
    rows = [row for each in planned for row in _planned_rows(each)]
    print_rows(rows, _PLANNED, "offsets", options.output)
    offset_count = sum(len(each.new) for each in planned)
    command = ["headgate", "fleet", "reset", *connection_words(options), "--plan", str(path), "--execute"]
    amount = f"{counted(offset_count, 'offset')} of {counted(len(planned), 'group')}"
    say(f"nothing was changed; {path} has {amount}. To execute it:")
    say(shlex.join(command))
    return 1 if refused else 0


def _planned_rows(planned: PlannedOffsets) -> Iterator[Row]:
    for place, offset in planned.new.items():
        yield {
            "group": planned.group_id,
            "topic": place.topic,
            "partition": place.partition,
            "committed_offset": planned.committed[place],
            "new_offset": offset,
        }


def _save_undo(undo: list[PlannedOffsets], path: Path) -> Path:
    """Save the undo of the plan at `path`, and return where. The undo of another plan is not replaced."""
    from headgate.fleet import PlanUnreadable, load_plan, save_plan

    for number in count(1):
        file = path.with_suffix(".undo.csv" if number == 1 else f".undo-{number}.csv")
        try:
            if load_plan(file) != undo:
                continue
        except FileNotFoundError:
            save_plan(undo, file)
        except PlanUnreadable:
            continue
        return file
    raise AssertionError


def _execute(admin: Admin, path: Path, output: str) -> int:
    from headgate.fleet import Step, execute, load_plan, undo_of
    from headgate.fleet.reset import cluster_id_of

    if not path.exists():
        raise UsageProblem(f"there is no plan {path}: make it first, with a target and without --execute")
    planned = load_plan(path)
    here = cluster_id_of(admin)
    others = {each.cluster_id for each in planned} - {"", here}
    if others:
        raise UsageProblem(
            f"{path} was made for cluster {min(others)}, and this is {here}: make a plan here, or "
            "empty its column cluster to execute it all the same"
        )
    undo = _save_undo(undo_of([replace(each, cluster_id=here) for each in planned]), path)
    outcomes: list[Outcome] = []
    with progress_bar("resetting", len(planned)) as advance:
        for outcome in execute(admin, planned):
            outcomes.append(outcome)
            advance()
    rows: list[Row] = [
        {"group": each.planned.group_id, "result": str(each.step), "message": each.message}
        for each in outcomes
    ]
    failed = [row for row in rows if row["result"] not in (Step.DONE, Step.ALREADY)]
    print_rows(failed if output == "table" else rows, _OUTCOMES, "groups", output)
    counts = Counter(each.step for each in outcomes)
    say(", ".join(f"{counted(count, 'group')} {step}" for step, count in counts.items()))
    if len(failed) < len(rows):
        say(f"to take it back: the same command with --plan {undo}")
    return 1 if failed else 0

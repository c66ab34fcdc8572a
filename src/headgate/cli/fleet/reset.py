"""`headgate fleet reset`: plan the reset of many groups, and execute a plan."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.admin import Admin, ByDuration, ClientError, ShiftBy, Target, ToDatetime, ToEarliest, ToLatest
from headgate.cli.consumer_groups.arguments import parse_datetime
from headgate.cli.consumer_groups.printing import Row, print_rows, say
from headgate.cli.consumer_groups.usage import UsageProblem
from headgate.cli.fleet.common import check_output, duration, failed, progress_bar

if TYPE_CHECKING:
    from headgate.fleet import Outcome, PlannedOffsets

_PLANNED = ("group", "topic", "partition", "committed_offset", "new_offset")
_OUTCOMES = ("group", "result", "message")


def reset(
    bootstrap_server: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of the cluster.")],
    plan: Annotated[
        Path, typer.Option(metavar="FILE.csv", help="The file of the plan: written, or executed.")
    ],
    group: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="This group. Can be repeated.")
    ] = None,
    groups_matching: Annotated[
        str | None, typer.Option(metavar="REGEX", help="All groups whose whole id matches.")
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups.")] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Only partitions of this topic. Can be repeated."),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The start of the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end of the log.")] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="The first record at or after 2026-11-21T08:30:00 (UTC)."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="P1DT2H", help="The first record that is not older than this.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(metavar="N", help="N records after the committed offset; before it if negative."),
    ] = None,
    from_table: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The offsets in a CSV or Parquet table: group_id, topic, partition, committed_offset.",
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Execute the plan in the file.")] = False,
    timeout: Annotated[int, typer.Option(metavar="MS", min=1, help="Timeout of each request, in ms.")] = 5000,
    output: Annotated[str, typer.Option(help="table, json or csv.")] = "table",
) -> None:
    """Reset the offsets of many groups: write a plan, look at it, execute it.

    headgate fleet reset --bootstrap-server HOST:PORT --all-groups --by-duration PT1H --plan plan.csv

    headgate fleet reset --bootstrap-server HOST:PORT --plan plan.csv --execute

    The second command writes plan.undo.csv first, the plan that takes it back (plan.undo-2.csv, if the first
    is the undo of another plan). It may be repeated after any interruption: groups that are done stay as they
    are, and a group that committed since the plan is left alone.
    """
    try:
        check_output(output)
        choices = {
            "--to-earliest": to_earliest,
            "--to-latest": to_latest,
            "--to-datetime": to_datetime,
            "--by-duration": by_duration,
            "--shift-by": shift_by,
            "--from-table": from_table,
        }
        given = [name for name, value in choices.items() if value is not None and value is not False]
        if execute and given:
            raise UsageProblem(
                f"--execute executes the plan in {plan}: make the plan first, without --execute"
            )
        if not execute and len(given) != 1:
            raise UsageProblem(f"one of {', '.join(choices)} is needed to make a plan, or --execute")
        target = None if execute or from_table is not None else _target(choices)
        with Admin(bootstrap_server, timeout / 1000) as admin:
            if execute:
                code = _execute(admin, plan, output)
            else:
                targets = _targets(admin, target, from_table, group or [], groups_matching, is_all=all_groups)
                code = _plan(admin, targets, topic or [], plan, output, bootstrap_server)
    except UsageProblem as problem:
        raise failed(str(problem), 2) from problem
    except ValueError as problem:
        raise failed(str(problem), 2) from problem
    except (ClientError, OSError) as problem:
        again = "; run it again to go on" if execute else ""
        raise failed(f"{problem}{again}") from problem
    raise typer.Exit(code)


def _target(choices: Mapping[str, object]) -> Target:
    if choices["--to-earliest"]:
        return ToEarliest()
    if choices["--to-latest"]:
        return ToLatest()
    if isinstance(when := choices["--to-datetime"], str):
        return ToDatetime(parse_datetime(when))
    if isinstance(age := choices["--by-duration"], str):
        return ByDuration(duration("--by-duration", age))
    count = choices["--shift-by"]
    assert isinstance(count, int)
    return ShiftBy(count)


def _targets(
    admin: Admin,
    target: Target | None,
    table: Path | None,
    named: list[str],
    pattern: str | None,
    *,
    is_all: bool,
) -> dict[str, Target]:
    """Return the groups to reset, each with its target."""
    from headgate.fleet.planning import read_targets

    if [bool(named), pattern is not None, is_all].count(True) > 1:
        raise UsageProblem("--group, --groups-matching and --all-groups exclude each other")
    known: list[str] = [each.group_id for each in admin.list_groups()]
    if pattern is not None:
        try:
            matches = re.compile(pattern).fullmatch
        except re.error as problem:
            raise UsageProblem(f"--groups-matching {pattern}: {problem}") from None
        chosen = [each for each in known if matches(each)]
    else:
        chosen = list(dict.fromkeys(named)) if named else list(known)
    if table is not None:
        targets = read_targets(table)
        chosen = [each for each in targets if pattern is None or each in chosen] if not named else chosen
        return {each: targets[each] for each in chosen if each in targets}
    if not (named or is_all or pattern is not None):
        raise UsageProblem("--group, --groups-matching or --all-groups is needed")
    if missing := sorted(set(chosen) - set(known)):
        raise UsageProblem(f"group {missing[0]} does not exist")
    assert target is not None
    return dict.fromkeys(chosen, target)


def _plan(
    admin: Admin, targets: dict[str, Target], topics: list[str], path: Path, output: str, servers: str
) -> int:
    from headgate.fleet import Step, save_plan
    from headgate.fleet.planning import plan_resets

    planned: list[PlannedOffsets] = []
    refused: list[Outcome] = []
    with progress_bar("planning", len(targets)) as (progress, task):
        for outcome in plan_resets(admin, targets, topics):
            progress.advance(task)
            if outcome.step is Step.DONE and outcome.planned.changes:
                planned.append(outcome.planned)
            elif outcome.step not in (Step.DONE, Step.ALREADY):
                refused.append(outcome)
    for outcome in refused:
        say(f"left out: {outcome.message}")
    if not planned:
        say("nothing to change: no plan was written")
        return 1 if refused else 0
    save_plan(planned, path)
    print_rows([row for each in planned for row in _planned_rows(each)], _PLANNED, "offsets", output)
    offset_count = sum(len(each.new) for each in planned)
    command = ["headgate", "fleet", "reset", "--bootstrap-server", servers, "--plan", str(path), "--execute"]
    say(f"nothing was changed; {path} has {offset_count} offsets of {len(planned)} groups. To execute it:")
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

    planned = load_plan(path)
    undo = _save_undo(undo_of(planned), path)
    outcomes: list[Outcome] = []
    with progress_bar("resetting", len(planned)) as (progress, task):
        for outcome in execute(admin, planned):
            outcomes.append(outcome)
            progress.advance(task)
    rows: list[Row] = [
        {"group": each.planned.group_id, "result": str(each.step), "message": each.message}
        for each in outcomes
    ]
    failed = [row for row in rows if row["result"] not in (Step.DONE, Step.ALREADY)]
    print_rows(failed if output == "table" else rows, _OUTCOMES, "groups", output)
    counts = Counter(each.step for each in outcomes)
    say(", ".join(f"{count} groups {step}" for step, count in counts.items()))
    say(f"to take it back: the same command with --plan {undo}")
    return 1 if failed else 0

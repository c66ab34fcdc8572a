"""Carries out `headgate import` and prints what it does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from headgate.cli.printing import shell_word
from headgate.takeover.importing import Import, carry_out, check_logs, check_place, plan_of, size_to_check
from headgate.takeover.importing import Progress as Steps
from headgate.takeover.plan import Plan, PlannedTopic
from headgate.takeover.source import stopped_broker
from headgate.takeover.target import check_target


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of the command."""

    sources: list[Path]
    data_dir: Path
    topics: list[str]
    all_topics: bool
    is_dry_run: bool
    as_json: bool


def run_import(wanted: Wanted) -> None:
    """Take over the broker's directories, and print the result. Raises ImportRefused, OSError."""
    check_target(wanted.data_dir)
    with stopped_broker(wanted.sources) as broker:
        check_place(broker, wanted.data_dir)
        plan = plan_of(broker, wanted.topics, all_topics=wanted.all_topics)
        with _bars() as bars:
            ready = check_logs(plan, Steps(checked=bars.new("checking", size_to_check(plan))))
            if not wanted.is_dry_run:
                count = len(plan.partitions_with_records())
                steps = Steps(copied=bars.new("copying", ready.size_bytes), opened=bars.new("opening", count))
                carry_out(ready, wanted.data_dir, steps)
    if wanted.as_json:
        print(json.dumps(_as_json(ready, wanted), indent=2))
    else:
        _print_table(ready, wanted)


class _Bars:
    """One bar for each phase, on a terminal only."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def new(self, what: str, total: int) -> _Advance:
        """Return what advances a new bar of `total` units."""
        task = None if self._progress is None else self._progress.add_task(what, total=total)
        return _Advance(self._progress, task)


class _Advance:
    """Advances a bar."""

    def __init__(self, progress: Progress | None, task: object) -> None:
        self._progress = progress
        self._task = task

    def __call__(self, amount: int) -> None:
        if self._progress is not None:
            self._progress.advance(self._task, amount)  # type: ignore[arg-type]  # a task of this progress


@contextmanager
def _bars() -> Iterator[_Bars]:
    """Show progress bars if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield _Bars(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bars(progress)


def _records_of(ready: Import, topic: PlannedTopic) -> int | None:
    """Return how many offsets the topic's partitions have; None for a topic without its records."""
    if not topic.has_records:
        return None
    return sum(
        ready.logs[topic.name, index].end_offset - ready.start_of(topic, index)
        for index in topic.state.partitions
    )


def _as_json(ready: Import, wanted: Wanted) -> dict[str, object]:
    plan = ready.plan
    return {
        "dry_run": wanted.is_dry_run,
        "cluster_id": plan.broker.cluster_id,
        "data_dir": str(wanted.data_dir),
        "was_stopped_cleanly": plan.broker.was_stopped_cleanly,
        "size_bytes": ready.size_bytes,
        "topics": [
            {
                "name": topic.name,
                "partitions": topic.partition_count,
                "offsets": _records_of(ready, topic),
            }
            for topic in plan.topics
        ],
        "groups_with_settings": sorted(plan.group_overrides),
        "notes": plan.notes,
    }


def _print_table(ready: Import, wanted: Wanted) -> None:
    plan = ready.plan
    width = max((len(topic.name) for topic in plan.topics), default=5)
    typer.echo(f"{'TOPIC':{width}}  PARTITIONS  OFFSETS")
    for topic in sorted(plan.topics, key=lambda one: one.name):
        records = _records_of(ready, topic)
        text = "not taken over, begins at Kafka's end" if records is None else str(records)
        typer.echo(f"{topic.name:{width}}  {topic.partition_count:<10}  {text}")
    for note in plan.notes:
        typer.echo(f"note: {note}")
    if wanted.is_dry_run:
        typer.echo(f"dry run: {ready.size_bytes:,} bytes would be copied; nothing was written")
        return
    typer.echo(_how_to_start(plan, wanted, ready.size_bytes))


def _how_to_start(plan: Plan, wanted: Wanted, size: int) -> str:
    return (
        f"took over cluster {plan.broker.cluster_id}: {size:,} bytes. Start it with the settings of the "
        "broker's server.properties that differ from Kafka's defaults. Without its log.retention.*, records "
        "older than 7 days are removed at once; without its offsets.retention.minutes, so are old offsets:\n"
        f"headgate serve --data-dir {shell_word(str(wanted.data_dir))} --set node.id={plan.broker.node_id}"
    )

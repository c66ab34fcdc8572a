"""`headgate spark`: the coordinator's log as tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.spark.landing import Landed

spark = typer.Typer(name="spark", no_args_is_help=True, help="Make tables of the coordinator's log.")


@spark.callback()
def _spark() -> None:
    """Make tables of the coordinator's log."""


@spark.command(no_args_is_help=True)
def land(
    source: Annotated[str, typer.Argument(help="A data directory, or HOST:PORT[,HOST:PORT...].")],
    target: Annotated[str, typer.Argument(help="A folder or a URI: one folder for each table, in Parquet.")],
    tables: Annotated[
        str | None, typer.Option(help="Which tables; by default those of TARGET, all if it is new.")
    ] = None,
    continuously: Annotated[bool, typer.Option(help="Go on until interrupted.")] = False,
    every: Annotated[float, typer.Option(help="With --continuously: seconds between two looks.", min=0)] = 10,
    sample_every: Annotated[
        float, typer.Option(help="With --continuously: seconds between two samples of end offsets.", min=0)
    ] = 60,
    timeout: Annotated[
        str, typer.Option(metavar="60s", help="How long a call waits for a broker that is away.")
    ] = "60s",
    master: Annotated[str, typer.Option(help="The Spark that does the work.")] = "local[*]",
) -> None:
    """Land what is durable of the coordinator's log and was not landed yet, exactly once.

    A run that was killed is finished by the next one. With --continuously it goes on when the broker was
    away, once it has landed something.
    """
    try:
        from headgate.client.errors import ClientError
        from headgate.spark.landing import LandingFailed, LandingRefused, run_on_spark
        from headgate.spark.landing import land as land_once
        from headgate.spark.options import OptionError
        from headgate.spark.plan import MissingData
    except ModuleNotFoundError as problem:
        raise _failed("land", f"{problem}: pip install 'headgate[spark]'") from problem
    run = run_on_spark(session(master, "headgate spark land"))
    names = None if tables is None else [name.strip() for name in tables.split(",")]

    def once(is_sampling: bool) -> Landed:
        return land_once(source, target, run, names, is_sampling=is_sampling, timeout=timeout)

    try:
        if continuously:
            _land_continuously(once, every, sample_every)
        typer.echo(_summary(once(True)))
    except (LandingRefused, LandingFailed, OptionError, MissingData, ClientError, OSError) as problem:
        raise _failed("land", str(problem)) from problem


def _land_continuously(once: Callable[[bool], Landed], every_s: float, sample_every_s: float) -> NoReturn:
    """Land again and again. A source that was there and is away now is waited for, with a message."""
    from headgate.spark.landing import SourceAway

    sampled_at = -sample_every_s
    was_there, is_away = False, False
    while True:
        is_sampling = time.monotonic() - sampled_at >= sample_every_s
        try:
            landed = once(is_sampling)
        except SourceAway as problem:
            if not was_there:
                raise
            if not is_away:
                _say("land", f"{problem}; trying again every {every_s:g} s")
            is_away = True
        else:
            sampled_at = time.monotonic() if is_sampling else sampled_at
            if is_away:
                _say("land", "the source is there again")
            was_there, is_away = True, False
            if any(landed.rows.values()):
                typer.echo(_summary(landed))
        time.sleep(every_s)


def session(master: str, name: str) -> SparkSession:
    """Return the active session, or start one of that name."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.master(master).appName(name)
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def _summary(landed: Landed) -> str:
    rows = ", ".join(f"{count:,} rows of {table}" for table, count in landed.rows.items())
    summary = f"landed {rows}; {len(landed.ends)} partitions of the log"
    if landed.incomplete:
        summary += (
            f", {len(landed.incomplete)} of them with gaps: compaction had removed records (progress.json)"
        )
    return summary


@spark.command(no_args_is_help=True)
def offsets(
    target: Annotated[str, typer.Argument(help="The folder or URI of the tables that were landed.")],
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    as_of: Annotated[
        str | None, typer.Option(help="A date and time in ISO 8601; by default the end of what is landed.")
    ] = None,
    output: Annotated[str, typer.Option(help="table, json or csv.")] = "table",
) -> None:
    """Print committed offsets from landed tables, now or as of a time. Needs neither Spark nor a broker."""
    from headgate.cli.consumer_groups.arguments import parse_datetime
    from headgate.cli.consumer_groups.printing import print_rows
    from headgate.cli.consumer_groups.usage import UsageProblem

    try:
        from headgate.spark.landing import LandingRefused, offsets_as_of, offsets_now
    except ModuleNotFoundError as problem:
        raise _failed("offsets", f"{problem}: pip install 'headgate[spark]'") from problem
    try:
        if as_of is None:
            found = offsets_now(target, group)
        else:
            found = offsets_as_of(target, parse_datetime(as_of, "--as-of"), group)
    except (LandingRefused, UsageProblem, OSError) as problem:
        raise _failed("offsets", str(problem)) from problem
    rows = found.select(_PRINTED).to_pylist()
    for row in rows:
        if row["commit_timestamp"] is not None:
            row["commit_timestamp"] = row["commit_timestamp"].isoformat(timespec="milliseconds")
        if not row.pop("is_known"):
            row["committed_offset"] = _UNKNOWN
    print_rows(rows, [column for column in _PRINTED if column != "is_known"], "offsets", output)
    if any(row["committed_offset"] == _UNKNOWN for row in rows):
        raise typer.Exit(1)


_UNKNOWN = "unknown"
_PRINTED = [
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "is_known",
]


def _failed(command: str, message: str) -> typer.Exit:
    _say(command, message)
    return typer.Exit(1)


def _say(command: str, message: str) -> None:
    typer.echo(f"headgate spark {command}: {message}", err=True)

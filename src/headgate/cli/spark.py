"""`headgate spark`: the coordinators' logs as tables."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from headgate.cli.connecting import INTERRUPTED, CommandConfig, Output, check_output, spark_options
from headgate.cli.printing import say
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.wording import counted

if TYPE_CHECKING:
    from pyarrow import Table
    from pyspark.sql import SparkSession

    from headgate.spark.landing import Landed
    from headgate.spark.landing.work import Result, Task

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_FEW_PARTITIONS = 8

spark = typer.Typer(name="spark", no_args_is_help=True, help="Make tables of the coordinators' logs.")


@spark.callback()
def _spark() -> None:
    """Make tables of the coordinators' logs."""


@spark.command(no_args_is_help=True)
def land(
    source: Annotated[str, typer.Argument(help="A data directory, or HOST:PORT[,HOST:PORT...].")],
    target: Annotated[str, typer.Argument(help="A folder or a URI: one folder for each table, in Parquet.")],
    tables: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE,...",
            help="Which tables: offset_commits, group_events, offsets_current, assignments, rebalances, "
            "pauses, transactions, share_deliveries, end_offsets, lag. By default those of TARGET, all if it "
            "is new.",
        ),
    ] = None,
    continuously: Annotated[bool, typer.Option(help="Go on until interrupted.")] = False,
    every: Annotated[float, typer.Option(help="With --continuously: seconds between two looks.", min=0)] = 10,
    sample_every: Annotated[
        float, typer.Option(help="With --continuously: seconds between two samples of end offsets.", min=0)
    ] = 60,
    timeout: Annotated[
        str, typer.Option(metavar="60s", help="How long a call waits for a broker that is away.")
    ] = "60s",
    delta: Annotated[
        bool, typer.Option("--delta", help="Keep a Delta log beside the tables, from this run on.")
    ] = False,
    command_config: CommandConfig = None,
    master: Annotated[str, typer.Option(help="The Spark that does the work.")] = "local[*]",
) -> None:
    """Land what is durable of the coordinators' logs and was not landed yet, exactly once.

    The logs are those of groups (__consumer_offsets), of transactions (__transaction_state) and of share
    groups (__share_group_state). A run that was killed is finished by the next one. With --continuously it
    keeps running when the broker was away, once it has landed something.
    """
    try:
        from headgate.client.errors import ClientError
        from headgate.spark.landing import LandingFailed, LandingRefused, landings, run_on_spark
        from headgate.spark.options import OptionError
        from headgate.spark.plan import MissingData
    except ModuleNotFoundError as problem:
        raise _failed("land", f"{problem}: pip install 'headgate[spark]'") from problem

    def run(tasks: Sequence[Task]) -> list[Result]:
        # Spark starts when there is work: what is wrong with the options or the source is said before.
        return run_on_spark(session(master, "headgate spark land"))(tasks) if tasks else []

    further = options_of(command_config)
    names = None if tables is None else [name.strip() for name in tables.split(",")]

    _say_if_away(source, timeout, further)
    try:
        with (
            interruption_without_stack(),
            landings(source, target, run, names, timeout=timeout, delta=delta, options=further) as once,
        ):
            if continuously:
                _land_continuously(once, every, sample_every)
            typer.echo(_summary(once(True)))
    except KeyboardInterrupt as interruption:
        _say("land", "interrupted; the next run continues here")
        raise typer.Exit(INTERRUPTED) from interruption
    except OptionError as problem:
        raise _failed("land", str(problem), 2) from problem
    except (LandingRefused, LandingFailed, MissingData, ClientError, OSError) as problem:
        raise _failed("land", str(problem)) from problem


def _say_if_away(source: str, timeout: str, further: Mapping[str, str]) -> None:
    """Say at once that a broker is not there, for which the landing waits."""
    from headgate.client.cluster import Cluster
    from headgate.client.errors import ClientError, NoNodeReachable
    from headgate.spark.options import OptionError, parse, source_option

    name, value = source_option(source)
    try:
        options = parse({**further, name: value, "subscribe": "any"})
        if options.bootstrap_servers is not None:
            with Cluster(options.bootstrap_servers, timeout_s=1, security=options.security) as cluster:
                cluster.any_node()
    except NoNodeReachable as problem:
        _say("land", f"{problem}; waiting for it, up to {timeout}")
    except (OptionError, ClientError):
        pass  # the landing tells it


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


def options_of(command_config: Path | None) -> dict[str, str]:
    try:
        return spark_options(command_config)
    except UsageProblem as problem:
        say(str(problem))
        raise typer.Exit(2) from problem


def session(master: str, name: str) -> SparkSession:
    """Return the active session, or start one of that name.

    On this machine it shuffles into few partitions, unless Spark's own configuration says how many: a task
    costs more than the rows of most groups, and with Spark's default most of 200 tasks have none. Raises
    `typer.Exit` if Spark does not start, after a message: without Java, by an unknown master, or because the
    environment names a server of Spark Connect.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if os.environ.get("SPARK_REMOTE"):
        say("SPARK_REMOTE names a server of Spark Connect; this command starts a Spark of its own: unset it")
        raise typer.Exit(1)
    builder = SparkSession.builder.master(master).appName(name)
    try:
        started = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except (PySparkException, Py4JError) as problem:
        reason = str(problem).strip().partition("\n")[0]
        say(
            f"Spark does not start with --master {master}: {reason} It needs Java 17 or newer; the lines "
            "above may tell more"
        )
        raise typer.Exit(1) from problem
    if master.startswith("local") and not started.sparkContext.getConf().contains(SHUFFLE_PARTITIONS):
        at_once = started.sparkContext.defaultParallelism
        started.conf.set(SHUFFLE_PARTITIONS, str(max(_FEW_PARTITIONS, 2 * at_once)))
    return started


@contextmanager
def interruption_without_stack() -> Iterator[None]:
    """Turn SIGTERM into an interruption, too, and keep py4j from logging the stack of an interrupted call."""

    def is_wanted(record: logging.LogRecord) -> bool:
        return not _is_of_interruption(record.exc_info[1] if record.exc_info else None)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = logging.getLogger()
    root.addFilter(is_wanted)
    try:
        yield
    finally:
        root.removeFilter(is_wanted)
        signal.signal(signal.SIGTERM, before)


def _is_of_interruption(problem: BaseException | None) -> bool:
    """Return whether a call was interrupted, or Spark's handler of the signal made it during another one."""
    if isinstance(problem, KeyboardInterrupt):
        return True
    cause = None if problem is None else problem.__context__
    return isinstance(cause, RuntimeError) and "reentrant call" in str(cause)


def _summary(landed: Landed) -> str:
    rows = ", ".join(f"{counted(count, 'row')} of {table}" for table, count in landed.rows.items())
    topics = Counter(where.topic for where in landed.ends)
    logs = ", ".join(f"{counted(count, 'partition')} of {topic}" for topic, count in topics.items())
    summary = f"landed {rows}; from {logs or 'no log'}"
    if landed.incomplete:
        summary += (
            f", {len(landed.incomplete)} of them with gaps: records were removed before they were landed "
            "(progress.json)"
        )
    if landed.unmarked:
        from headgate.admin.errors import first_of

        summary += (
            f"; nothing yet from {first_of(landed.unmarked)}: their broker has not marked what is durable"
        )
    return summary


LandedTables = Annotated[str, typer.Argument(help="The folder or URI of the tables that were landed.")]
AsOf = Annotated[
    str | None,
    typer.Option(
        help="A date and time in ISO 8601; it is UTC if it has no offset. Default: the end of what is landed."
    ),
]


@spark.command(no_args_is_help=True)
def offsets(
    target: LandedTables,
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    as_of: AsOf = None,
    output: Output = "table",
) -> None:
    """Print committed offsets from landed tables, now or as of a time.

    Needs neither Spark nor a broker. The exit code is 1 if an offset is unknown, or may be missing.
    """
    from headgate.cli.printing import print_rows

    try:
        from headgate.spark.landing import gaps_at, offsets_as_of, offsets_now
    except ModuleNotFoundError as problem:
        raise _failed("offsets", f"{problem}: pip install 'headgate[spark]'") from problem
    gaps: list[int] = []

    def at(time: datetime) -> Table:
        found = offsets_as_of(target, time, group)
        of_group = set(found["log_partition"].to_pylist()) if group is not None else set()
        gaps.extend(number for number in gaps_at(target, time) if not of_group or number in of_group)
        return found

    found = _landed("offsets", target, output, as_of, lambda: offsets_now(target, group), at)
    rows = found.select(_PRINTED).to_pylist()
    for row in rows:
        if row["commit_timestamp"] is not None:
            row["commit_timestamp"] = row["commit_timestamp"].isoformat(timespec="milliseconds")
        if not row.pop("is_known"):
            row["committed_offset"] = _UNKNOWN
    print_rows(rows, [column for column in _PRINTED if column != "is_known"], "offsets", output)
    if not rows:
        say(_nothing("committed offsets", group, as_of))
    if gaps:
        numbers = ", ".join(map(str, gaps[:_MOST_NAMED])) + (", ..." if len(gaps) > _MOST_NAMED else "")
        say(
            f"compaction had removed records of that time before they were landed (log_partition {numbers}): "
            "an offset that was deleted since has no row, and is unknown, too"
        )
    if gaps or any(row["committed_offset"] == _UNKNOWN for row in rows):
        raise typer.Exit(1)


@spark.command(name="share-states", no_args_is_help=True)
def share_states(
    target: LandedTables,
    group: Annotated[str | None, typer.Option(help="Only this share group.")] = None,
    as_of: AsOf = None,
    output: Output = "table",
) -> None:
    """Print the states of share-partitions from landed tables, now or as of a time.

    BATCHES has the persisted deliveries: offsets, state, and delivery count. Needs neither Spark nor a
    broker. The exit code is 1 if a state is unknown.
    """
    from headgate.cli.printing import print_rows

    try:
        from headgate.fleet import share_states_as_of, share_states_now
    except ModuleNotFoundError as problem:
        raise _failed("share-states", f"{problem}: pip install 'headgate[spark]'") from problem
    found = _landed(
        "share-states",
        target,
        output,
        as_of,
        lambda: share_states_now(target, group),
        lambda at: share_states_as_of(target, at, group),
    )
    rows = [_share_row(row, output) for row in found.to_pylist()]
    print_rows(rows, _SHARE_STATE, "share_states", output)
    if not rows:
        say(_nothing("states of share-partitions", group, as_of))
    if not all(found["is_known"].to_pylist()):
        raise typer.Exit(1)


def _nothing(what: str, group: str | None, as_of: str | None) -> str:
    """Return the message for a question that no landed row answers."""
    of_group = "" if group is None else f" of group {group}"
    at = "" if as_of is None else f" as of {as_of}"
    return f"the landed tables have no {what}{of_group}{at}"


def _landed(
    command: str,
    target: str,
    output: str,
    as_of: str | None,
    now: Callable[[], Table],
    at: Callable[[datetime], Table],
) -> Table:
    """Return what `now` or `at` reads from landed tables; end the command with a message if that fails."""
    from headgate.admin.errors import moment
    from headgate.cli.consumer_groups.arguments import parse_datetime
    from headgate.domain.times import as_datetime, millis
    from headgate.spark.landing import LandingRefused, landed_until
    from headgate.spark.options import OptionError

    try:
        check_output(output)
        if as_of is None:
            return now()
        asked = as_datetime(parse_datetime(as_of, "--as-of"))
        until = landed_until(target)  # before the answer: a landing may end in between
        found = at(asked)
    except (UsageProblem, OptionError) as problem:
        raise _failed(command, str(problem), 2) from problem
    except (LandingRefused, OSError) as problem:
        raise _failed(command, str(problem)) from problem
    if until is None:
        _say(command, "until when the tables are complete is not known: land from a server's port to know it")
    elif asked >= until:
        _say(command, f"the tables are landed until {moment(millis(until))}: later changes are not in them")
    return found


def _share_row(row: dict[str, Any], output: str) -> dict[str, Any]:
    is_known, batches = row.pop("is_known"), row["batches"]
    printed = {name: row[name] for name in _SHARE_STATE}
    if not is_known:
        printed["start_offset"] = _UNKNOWN
    elif output != "json":
        printed["batches"] = " ".join(map(_batch_text, batches))
    if row["log_timestamp"] is not None:
        printed["log_timestamp"] = row["log_timestamp"].isoformat(timespec="milliseconds")
    return printed


def _batch_text(batch: dict[str, Any]) -> str:
    first, last = batch["first_offset"], batch["last_offset"]
    offsets = f"{first}" if first == last else f"{first}-{last}"
    return f"{offsets}:{batch['delivery_state']}:{batch['delivery_count']}"


_UNKNOWN = "unknown"
_MOST_NAMED = 5
"""How many partitions with a gap are named."""
_SHARE_STATE = [
    "group_id",
    "topic_id",
    "partition",
    "start_offset",
    "delivery_complete_count",
    "state_epoch",
    "leader_epoch",
    "batches",
    "log_timestamp",
]
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


def _failed(command: str, message: str, code: int = 1) -> typer.Exit:
    _say(command, message)
    return typer.Exit(code)


def _say(command: str, message: str) -> None:
    typer.echo(f"headgate spark {command}: {message}", err=True)

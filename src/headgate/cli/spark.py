"""`headgate spark`: the coordinator's log as tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

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
    tables: Annotated[str, typer.Option(help="Which tables.")] = "offset_commits,group_events",
    continuously: Annotated[bool, typer.Option(help="Go on until interrupted.")] = False,
    every: Annotated[float, typer.Option(help="With --continuously: seconds between two looks.", min=0)] = 10,
    master: Annotated[str, typer.Option(help="The Spark that does the work.")] = "local[*]",
) -> None:
    """Land what is durable of the coordinator's log and was not landed yet, exactly once.

    A run that was killed is finished by the next one.
    """
    try:
        from headgate.spark.landing import LandingFailed, LandingRefused, run_on_spark
        from headgate.spark.landing import land as land_once
        from headgate.spark.options import OptionError
        from headgate.spark.plan import MissingData
    except ModuleNotFoundError as problem:
        raise _failed(f"{problem}: pip install 'headgate[spark]'") from problem
    spark_session = session(master, "headgate spark land")
    names = [name.strip() for name in tables.split(",")]
    while True:
        try:
            landed = land_once(source, target, run_on_spark(spark_session), names)
        except (LandingRefused, LandingFailed, OptionError, MissingData, OSError) as problem:
            raise _failed(str(problem)) from problem
        if not continuously or any(landed.rows.values()):
            typer.echo(_summary(landed))
        if not continuously:
            return
        time.sleep(every)


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
    return f"landed {rows}; {len(landed.ends)} partitions of the log"


def _failed(message: str) -> typer.Exit:
    typer.echo(f"headgate spark land: {message}", err=True)
    return typer.Exit(1)

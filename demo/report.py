"""The demo's output for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.story import GROUP, PARTITION_COUNT, TOPIC


@dataclass(frozen=True, slots=True)
class Check:
    """A condition, and whether it is true."""

    holds: bool
    text: str


def opening(console: Console) -> None:
    """Print what the demo will do."""
    console.print("[bold]Headgate: a year of flights, three client libraries, one crash[/]\n")


def checks(console: Console, made: list[Check]) -> None:
    """Print every check with its result."""
    console.print("[bold]Checks[/]")
    for check in made:
        console.print(f"  [bold {'green]✓' if check.holds else 'red]✗'}[/] {check.text}")
    console.print()


def findings(console: Console, found: dict[str, Any]) -> None:
    """Print what Spark read from the coordinator's log."""
    console.print(
        f"\n[bold]Spark on the coordinator's log[/]: {found['commits']:,} commits, "
        f"lag at its highest {found['peak_lag']:,} flights\n"
    )
    console.print(_commits_per_minute(found["commits_per_minute"]))
    console.print(_rebalances(found["rebalances"]))
    console.print()


def moving(console: Console) -> None:
    """Introduce the chapter after Spark."""
    console.print("[bold]A group that the server balances: partitions move, and a commit comes late[/]")


def holding(console: Console) -> None:
    """Introduce the chapter after the moving partitions."""
    console.print("\n[bold]One airport is held back, set back and resumed, while the others flow[/]")


def further(console: Console) -> None:
    """Introduce the last chapter."""
    console.print("\n[bold]Any number of partitions in one commit, and a reset taken back[/]")


def queueing(console: Console) -> None:
    """Introduce the chapter of the work queue."""
    console.print("\n[bold]Flights are a work queue, and one of them is more than its workers can handle[/]")


def joining(console: Console) -> None:
    """Introduce the chapter of the transactions."""
    console.print("\n[bold]Flights are read, joined and written exactly once, whatever is killed[/]")


def streaming(console: Console) -> None:
    """Introduce the chapter of the stream."""
    console.print("\n[bold]A Spark stream is a consumer group, and is rewound while it runs[/]")


def _commits_per_minute(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="commits per partition and minute", title_justify="left")
    table.add_column("minute (UTC)")
    for partition in range(PARTITION_COUNT):
        table.add_column(f"p{partition}", justify="right")
    minutes: dict[str, dict[int, int]] = {}
    for row in rows:
        minutes.setdefault(row["at"][11:16], {})[row["partition"]] = row["commits"]
    for minute, counts in minutes.items():
        table.add_row(minute, *(f"{counts.get(partition, 0):,}" for partition in range(PARTITION_COUNT)))
    return table


def _rebalances(rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"rebalances of group {GROUP}", title_justify="left")
    for name in ("at (UTC)", "generation", "members", "joined", "left"):
        table.add_column(name, justify="right" if name in ("generation", "members") else "left")
    for row in rows:
        table.add_row(
            row["at"][11:23],
            str(row["generation"]),
            str(row["member_count"]),
            _names(row["joined"]),
            _names(row["left"]),
        )
    return table


def _names(member_ids: list[str]) -> str:
    """Return member ids without the random part that the coordinator adds to the client's id."""
    return ", ".join(
        sorted(member_id[:-37] if len(member_id) > 37 else member_id for member_id in member_ids)
    )


def what_next(console: Console, directory: Path) -> None:
    """Print where the output is, and further commands to try."""
    console.print("[bold]What there is now[/]")
    for name, text in (
        ("lag.png", "the group's lag through the crash"),
        ("held.png", "what was read of three airports while one was paused"),
        ("lake/", "the flights as the Spark stream wrote them, in Parquet files"),
        ("report.html", "all groups: findings, lag, commits, rebalances, members, expiries"),
        ("*.csv", "commits per minute and second, lag over time, rebalances"),
        ("data/", "the broker's data directory, in Kafka's own file format"),
        ("*.log", "what the broker, its clients and Spark had to say"),
    ):
        console.print(f"  {f'{directory}/{name}':<22} {text}", highlight=False)
    console.print("\n[bold]Try next[/]")
    console.print(
        f"  .venv/bin/headgate serve --data-dir {directory}/data --listen 127.0.0.1:9092\n"
        "      and point any Kafka client at it: flights and group are still there\n"
        "  .venv/bin/python\n"
        "      import headgate.spark; from pyspark.sql import SparkSession\n"
        "      spark = SparkSession.builder.getOrCreate()\n"
        f'      headgate.spark.records(spark, "{directory}/data", "{TOPIC}").show()\n'
        f'      headgate.spark.group_events(spark, "{directory}/data").show()',
        markup=False,
        highlight=False,
    )

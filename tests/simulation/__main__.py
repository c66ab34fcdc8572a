"""Run seeds: `python -m tests.simulation --seeds 1..1000`. A failure is printed with its replay."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tests.simulation.transactions.world import TransactionWorld
from tests.simulation.world import OPERATIONS, Outcome, World

REPLAY = "python -m tests.simulation --seeds {seed}..{seed} --operations {operations}"
REPLAY_TRANSACTIONS = "python -m tests.simulation --transactions --seeds {seed}..{seed}"


def seeds_of(text: str) -> range:
    """Return the range of `A..B`, both included, or of a single seed. Raises typer.BadParameter."""
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise typer.BadParameter("seeds look like 1..1000, or 17") from None


def main(
    seeds: Annotated[str, typer.Option(help="Which seeds to run: A..B, both included, or one.")] = "1..100",
    operations: Annotated[
        int, typer.Option(help="How many requests the clients of a seed make.")
    ] = OPERATIONS,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Simulate a whole node and transactional producers.")
    ] = False,
) -> None:
    """Simulate the server, one seed after the other, and audit every reply."""
    console = Console()
    wanted = seeds_of(seeds)
    counts: Counter[str] = Counter()
    failed: list[Outcome] = []
    started = time.monotonic()
    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("seeds", total=len(wanted), failed=0)
        for seed in wanted:
            outcome = (TransactionWorld(seed) if transactions else World(seed, operations)).run()
            counts += outcome.counts
            if outcome.violation is not None:
                failed.append(outcome)
                console.print(f"seed {seed}: {outcome.violation}", style="red", markup=False)
                replay = (REPLAY_TRANSACTIONS if transactions else REPLAY).format(
                    seed=seed, operations=operations
                )
                console.print(f"  replay with: {replay}", markup=False)
            progress.update(task, advance=1, failed=len(failed))
    minutes = (time.monotonic() - started) / 60
    console.print(summary(counts))
    done = counts["transactions" if transactions else "requests"] / minutes
    what = "transactions" if transactions else "operations"
    console.print(f"{done:,.0f} {what} a minute, {len(failed)} seeds failed")
    sys.exit(bool(failed))


def summary(counts: Counter[str]) -> Table:
    """Return how often each event occurred."""
    table = Table("exercised", "times")
    table.columns[1].justify = "right"
    for what, times in sorted(counts.items()):
        table.add_row(what, f"{times:,}")
    return table


if __name__ == "__main__":
    typer.run(main)

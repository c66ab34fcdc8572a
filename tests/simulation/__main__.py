"""Run seeds of a simulation: `python -m tests.simulation --of all --seeds 1..100`.

A failure is printed with the command that replays it.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tests.simulation.requests import Violation
from tests.simulation.shares.world import ShareWorld
from tests.simulation.transactions.world import TransactionWorld
from tests.simulation.world import OPERATIONS, Outcome, World

REPLAY = "python -m tests.simulation --of {kind} --seeds {seed}..{seed}"


class Kind(StrEnum):
    """What is simulated."""

    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    SHARES = "shares"
    ALL = "all"


def share_outcome(seed: int) -> Outcome:
    """Run one seed of share groups."""
    world = ShareWorld(seed)
    violation = None
    try:
        world.run()
    except Violation as found:
        violation = f"at {world.time.seconds:.4f} s: {found}"
    return Outcome(seed, violation, world.journal.trace_hash(), world.journal.counts)


def seeds_of(text: str) -> range:
    """Return the range of `A..B`, both included, or of a single seed. Raises typer.BadParameter."""
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise typer.BadParameter("seeds look like 1..1000, or 17") from None


def main(
    seeds: Annotated[str, typer.Option(help="Which seeds to run: A..B, both included, or one.")] = "1..100",
    of: Annotated[
        Kind,
        typer.Option(help="Groups, or whole nodes with transactions or share groups."),
    ] = Kind.ALL,
    operations: Annotated[
        int, typer.Option(help="How many requests the clients of a seed of groups make.")
    ] = OPERATIONS,
) -> None:
    """Simulate the server, one seed after the other, and audit every reply."""
    console = Console()
    worlds: dict[Kind, Callable[[int], Outcome]] = {
        Kind.GROUPS: lambda seed: World(seed, operations).run(),
        Kind.TRANSACTIONS: lambda seed: TransactionWorld(seed).run(),
        Kind.SHARES: share_outcome,
    }
    kinds = list(worlds) if of is Kind.ALL else [of]
    runs = [(seed, kind) for seed in seeds_of(seeds) for kind in kinds]
    counts = {kind: Counter[str]() for kind in kinds}
    failed = 0
    started = time.monotonic()
    columns = (
        TextColumn("runs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("runs", total=len(runs), failed=0)
        for seed, kind in runs:
            outcome = worlds[kind](seed)
            counts[kind] += outcome.counts
            if outcome.violation is not None:
                failed += 1
                console.print(f"seed {seed} of {kind}: {outcome.violation}", style="red", markup=False)
                replay = REPLAY.format(kind=kind, seed=seed)
                more = f" --operations {operations}" if kind is Kind.GROUPS else ""
                console.print(f"  replay with: {replay}{more}", markup=False)
            progress.update(task, advance=1, failed=failed)
    for kind in kinds:
        console.print(summary(kind, counts[kind]))
    minutes = (time.monotonic() - started) / 60
    console.print(f"{len(runs):,} runs in {minutes:,.1f} minutes, {failed} failed")
    sys.exit(bool(failed))


def summary(kind: Kind, counts: Counter[str]) -> Table:
    """Return how often each event occurred."""
    table = Table(f"exercised with {kind}", "times")
    table.columns[1].justify = "right"
    for what, times in sorted(counts.items()):
        table.add_row(what, f"{times:,}")
    return table


if __name__ == "__main__":
    typer.run(main)

"""`python -m bench`: Headgate and its peers, side by side in one run.

Absolute figures vary by a third between runs on a small machine. So every measure is taken in interleaved
rounds (A B C, A B C, ...), the medians are compared, and the ratio to Kafka is the result.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.crowds import ClassicHeartbeatMeasure, HeartbeatMeasure, warm_up
from bench.figures import Effort, Figure, MeasureFailed
from bench.load import OFFSET_COMMIT, Load, build_load, run_load
from bench.measures import LOAD_TOPIC_PARTITIONS, MEASURES, Measure
from bench.paths import BUILD
from bench.peers import LOAD_TOPIC, PEERS, Durability, Peer, PeerUnavailable, create_topic, wait_until_at_rest
from bench.report import Report, Row, as_json, as_processor_table, as_table

KAFKA_WARM_UP_S = 10.0
FULL = Effort(seconds=3, warm_up_seconds=0.5, records=1_000_000)
QUICK = Effort(seconds=1, warm_up_seconds=0.2, records=200_000)

T = TypeVar("T")


class Output(Enum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def bench(
    only: Annotated[
        list[str] | None, typer.Option(help="Measures to take, by name; all if not given.")
    ] = None,
    peer: Annotated[list[str] | None, typer.Option(help="Peers to run; all if not given.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, of which the median is taken.")] = 3,
    quick: Annotated[bool, typer.Option(help="One short round: does it work, not how fast.")] = False,
    output: Annotated[Output, typer.Option(help="How to print the result.")] = Output.TABLE,
    json_file: Annotated[Path, typer.Option(help="Where the result is kept.")] = BUILD / "bench.json",
) -> None:
    """Measures Headgate beside its peers and prints the medians."""
    measures = _chosen(only, {one.name: one for one in MEASURES}, "measure")
    names = [name for name in PEERS if name in _chosen(peer, PEERS, "peer")]
    effort = QUICK if quick else FULL
    report = Report(rounds=1 if quick else rounds, effort=effort)
    console = Console(stderr=True)
    with ExitStack() as stack:
        peers = _start(names, report, stack, console)
        _prepare(peers, quick, console)
        if not quick and any(
            isinstance(one, (HeartbeatMeasure, ClassicHeartbeatMeasure)) for one in measures.values()
        ):
            _warm_groups_up(peers, console)
        _measure(list(measures.values()), peers, report, console)
    text = json.dumps(as_json(report), indent=2)
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(text + "\n")
    if output is Output.JSON:
        print(text)
    else:
        # A pipe has no width; use a fixed one.
        printer = Console(width=None if sys.stdout.isatty() else 150)
        printer.print(as_table(report))
        printer.print(as_processor_table(report))
    if report.failures:
        for failure in report.failures:
            console.print(f"[red]failed[/]: {failure}")
        raise typer.Exit(1)


def _chosen(names: list[str] | None, known: dict[str, T], kind: str) -> dict[str, T]:
    for name in names or []:
        if name not in known:
            raise typer.BadParameter(f"no {kind} is called {name}: there are {', '.join(known)}")
    return {name: known[name] for name in names} if names else dict(known)


def _start(names: list[str], report: Report, stack: ExitStack, console: Console) -> list[Peer]:
    peers = []
    for name in names:
        with console.status(f"starting {name}"):
            try:
                peers.append(stack.enter_context(PEERS[name]()))
            except PeerUnavailable as problem:
                console.print(f"[yellow]without {name}[/]: {problem}")
                report.absent[name] = str(problem)
                # The run continues without a peer; without Headgate there is nothing to compare.
                if name == "headgate":
                    raise typer.Exit(1) from None
    report.peers = peers
    return peers


def _prepare(peers: list[Peer], quick: bool, console: Console) -> None:
    """Create topics, compile the load generator, and warm up the JVM: a cold Kafka is three times slower."""
    with console.status("building bench/load/load.c"):
        build_load()
    for peer in peers:
        if peer.widest >= LOAD_TOPIC_PARTITIONS:
            for bootstrap in set(peer.bootstraps.values()):
                create_topic(bootstrap, LOAD_TOPIC, LOAD_TOPIC_PARTITIONS)
    for peer in peers:
        seconds = KAFKA_WARM_UP_S if peer.name == "kafka" and not quick else 1.0
        with console.status(f"warming {peer.name} up for {seconds:.0f} s"):
            for bootstrap in set(peer.bootstraps.values()):
                warm = Load(api=OFFSET_COMMIT, window=4, topic=LOAD_TOPIC)
                run_load(bootstrap, warm, seconds=seconds, warm_up_seconds=0)


def _warm_groups_up(peers: list[Peer], console: Console) -> None:
    for peer in peers:
        if peer.balances_groups:
            with console.status(f"warming {peer.name}'s groups up"):
                for bootstrap in set(peer.bootstraps.values()):
                    warm_up(bootstrap, KAFKA_WARM_UP_S if peer.name == "kafka" else 1.0)


def _measure(measures: list[Measure], peers: list[Peer], report: Report, console: Console) -> None:
    plan = [
        (measure, durability)
        for comes_last in (False, True)
        for durability in Durability
        for measure in measures
        if durability in measure.durabilities and measure.is_burden is comes_last
    ]
    bar = Progress(
        TextColumn("{task.description:58}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    begin = time.monotonic()
    with bar:
        total = sum(m.fits(p, d) * _rounds(m, report) for m, d in plan for p in peers)
        task = bar.add_task("", total=total)
        for measure, durability in plan:
            row = Row(measure, durability)
            report.rows.append(row)
            for _round in range(_rounds(measure, report)):
                for peer in peers:
                    if measure.fits(peer, durability):
                        bar.update(task, description=f"{measure.name}, {durability.value}: {peer.name}")
                        _one(row, peer, report)
                        bar.advance(task)
    report.took_s = time.monotonic() - begin


def _rounds(measure: Measure, report: Report) -> int:
    return 1 if measure.is_taken_once else report.rounds


def _one(row: Row, peer: Peer, report: Report) -> None:
    os.sync()  # unwritten data and pending work of the previous measure must not slow this one
    try:
        wait_until_at_rest(report.peers)
        figure: Figure = row.measure.run(peer, row.durability, report.effort)
    except (MeasureFailed, PeerUnavailable) as error:
        report.failures.append(f"{row.measure.name}, {row.durability.value}, {peer.name}: {error}")
        return
    row.figures.setdefault(peer.name, []).append(figure)


def main() -> None:
    """The command line."""
    app = typer.Typer(add_completion=False)
    app.command()(bench)
    app()


if __name__ == "__main__":
    main()

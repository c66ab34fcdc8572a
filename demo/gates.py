"""Two more chapters: 100,000 partitions in one commit, all or nothing, and a reset that is undone.

As `python -m demo.gates ADDRESS OFFSET` it is the client that commits: an unmodified kafka-python.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from kafka.structs import OffsetAndMetadata
from rich.console import Console

from demo import children
from demo.broker import DemoBroker
from demo.report import Check
from demo.shell import COMMAND_TIMEOUT_S, show_consumer_groups
from demo.story import DIRECTORY, GROUP, TOPIC, DemoFailed
from headgate.admin import Admin
from kafka import KafkaConsumer, TopicPartition

GATES = "gates"
GATE_COUNT = 100_000
BOARD = "gate-board"

COMMIT_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.001
_SENT = "committing"


def commit_every_gate(address: str, offset: int) -> None:
    """Send one OffsetCommit request for all partitions."""
    consumer = KafkaConsumer(bootstrap_servers=address, group_id=BOARD, enable_auto_commit=False)
    offsets = {TopicPartition(GATES, gate): OffsetAndMetadata(offset, "", -1) for gate in range(GATE_COUNT)}
    print(_SENT, flush=True)
    consumer.commit(offsets, timeout_ms=int(COMMIT_TIMEOUT_S * 1000))
    consumer.close()


def commit_all_or_nothing(console: Console, broker: DemoBroker) -> list[Check]:
    """Commit 100,000 partitions; then again, and kill the broker during the write; check after each."""
    began = time.monotonic()
    child = _committer(broker, 1)
    with console.status(f"kafka-python commits {GATE_COUNT:,} partitions"):
        if child.wait(COMMIT_TIMEOUT_S) != 0:
            raise DemoFailed(f"the commit of {GATE_COUNT:,} partitions failed; see {DIRECTORY}/gates.log")
    took_s = time.monotonic() - began
    first = _offsets(broker)
    console.print(
        f"  [bold]{len(first):,}[/] partitions committed by kafka-python in one request, {took_s:.1f} s "
        "with its start (Kafka refuses such a commit)"
    )
    with console.status("the same again, and kill -9 while it is written"):
        _kill_in_the_midst(broker, _committer(broker, 2))
    broker.start()
    second = _offsets(broker)
    values = set(second.values())
    console.print(
        f"  once more, and [bold red]kill -9[/] while it was written: all of them are at {values.pop()} now"
        if len(values) == 1
        else f"  [bold red]torn[/]: the partitions are at {sorted(values)} now"
    )
    return [
        Check(
            first == dict.fromkeys(range(GATE_COUNT), 1),
            f"one commit of {GATE_COUNT:,} partitions was acknowledged, and all of them are there",
        ),
        Check(
            len(second) == GATE_COUNT and len(set(second.values())) == 1,
            "of one that a crash cut short all partitions are there, or none",
        ),
    ]


def undo_a_reset(console: Console, broker: DemoBroker) -> list[Check]:
    """Reset the group by mistake with `headgate consumer-groups`, and undo it."""
    before = _group_offsets(broker)
    scope = ["--group", GROUP, "--topic", TOPIC, "--execute"]
    show_consumer_groups(console, broker, ["--reset-offsets", "--to-earliest", *scope])
    reset = _group_offsets(broker)
    show_consumer_groups(console, broker, ["--undo", *scope])
    return [
        Check(
            set(reset.values()) == {0} and _group_offsets(broker) == before,
            f"a reset of group {GROUP} was undone: its offsets are what they were",
        )
    ]


def _committer(broker: DemoBroker, offset: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "demo.gates", broker.address, str(offset)]
    child = children.start(command, DIRECTORY / "gates.log")
    assert child.stdout is not None
    if child.stdout.readline().strip() != _SENT:
        raise DemoFailed(f"kafka-python did not get to commit; see {DIRECTORY}/gates.log")
    return child


def _kill_in_the_midst(broker: DemoBroker, child: subprocess.Popen[str]) -> None:
    """Kill the broker when its log of offsets begins to grow, and the client with it, which would retry."""
    log = broker.data_directory / "__consumer_offsets-0"
    size = _bytes_of(log)
    deadline = time.monotonic() + COMMIT_TIMEOUT_S
    while _bytes_of(log) == size:
        if time.monotonic() > deadline or child.poll() is not None:
            raise DemoFailed("the second commit never reached the log")
        time.sleep(_LOOK_EVERY_S)
    broker.kill()
    children.kill(child)


def _bytes_of(log: Path) -> int:
    return sum(segment.stat().st_size for segment in log.glob("*.log"))


def _offsets(broker: DemoBroker) -> dict[int, int]:
    with Admin(broker.address, timeout_s=COMMIT_TIMEOUT_S) as admin:
        committed = admin.committed_offsets(BOARD)
    return {where.partition: one.offset for where, one in committed.items()}


def _group_offsets(broker: DemoBroker) -> dict[int, int]:
    with Admin(broker.address, timeout_s=COMMAND_TIMEOUT_S) as admin:
        return {where.partition: one.offset for where, one in admin.committed_offsets(GROUP).items()}


if __name__ == "__main__":
    commit_every_gate(sys.argv[1], int(sys.argv[2]))

"""`python -m bench.start`: the start time with millions of committed offsets, compared with Apache Kafka.

Both brokers get the same commits over the network: 30,000 groups commit 100 partitions each, twice, which
makes 3 million offsets in 6 million records. Then each broker is stopped and restarted. The result is the
time from the start of its process until fetches of offsets of groups all over the log return the right
values.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.kafka import broker as kafka
from bench.paths import BUILD
from bench.peers import create_topic
from headgate.broker import Broker
from headgate.log.state_file import STATE_NAME

TOPIC = "load"
PARTITIONS = 100
ROUNDS = 2
WINDOW = 64
DEADLINE_S = 120.0
_OFFSET_COMMIT, _OFFSET_FETCH = 8, 9
_COMMIT_VERSION, _FETCH_VERSION = 7, 5
_LOADING = (14, 15, 16)
"""Errors of a coordinator that is still loading."""
_LOADED = re.compile(r"Finished loading of metadata from (\S+) .*?in (\d+) ?m")
_KAFKA_SETTINGS = {"log.cleaner.enable": "false", "offsets.topic.num.partitions": "1"}
_HEADGATE_SETTINGS = {"log.cleaner.enable": "false", "headgate.durability": "page-cache"}


class StartFailed(RuntimeError):
    """A broker answered wrongly or not at all; the message says what."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds until the first right answer, and the loading time that the broker reports."""

    name: str
    seconds: float
    processor_seconds: float | None = None
    loading_seconds: float | None = None


class Asker:
    """A connection that commits and fetches offsets, with many requests in flight."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self._socket.close()

    def commit(self, groups: range, offset: int) -> None:
        """Commit `offset` for all partitions in each of these groups. Raises StartFailed."""
        partitions = b"".join(struct.pack(">iqih", at, offset, -1, 0) for at in range(PARTITIONS))
        topics = struct.pack(">i", 1) + _text(TOPIC) + struct.pack(">i", PARTITIONS) + partitions
        tail = struct.pack(">i", -1) + _text("") + struct.pack(">h", -1) + topics
        accepted = b"".join(struct.pack(">ih", at, 0) for at in range(PARTITIONS))
        under_way = 0
        for group in groups:
            self._send(_OFFSET_COMMIT, _COMMIT_VERSION, _text(group_id(group)) + tail)
            under_way += 1
            if under_way == WINDOW:
                self._expect(accepted)
                under_way -= 1
        for _ in range(under_way):
            self._expect(accepted)

    def fetch(self, group: int) -> tuple[int, list[int]]:
        """Return the error and the offsets of a group."""
        wanted = struct.pack(">i", PARTITIONS) + struct.pack(f">{PARTITIONS}i", *range(PARTITIONS))
        body = _text(group_id(group)) + struct.pack(">i", 1) + _text(TOPIC) + wanted
        self._send(_OFFSET_FETCH, _FETCH_VERSION, body)
        answer = self._receive()
        (error,) = struct.unpack(">h", answer[-2:])
        at = 4 + 4 + 2 + len(TOPIC) + 4
        offsets = []
        while at < len(answer) - 2:
            _, offset, _, size = struct.unpack_from(">iqih", answer, at)
            offsets.append(offset)
            at += 18 + max(size, 0) + 2
        return error, offsets

    def _expect(self, accepted: bytes) -> None:
        if not self._receive().endswith(accepted):
            raise StartFailed("a commit was refused")

    def _send(self, key: int, version: int, body: bytes) -> None:
        frame = struct.pack(">hhi", key, version, 1) + _text("start") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def _receive(self) -> bytes:
        head = self._stream.read(8)
        if len(head) < 8:
            raise StartFailed("the broker closed the connection")
        return self._stream.read(struct.unpack(">i", head[:4])[0] - 4)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def group_id(number: int) -> str:
    """Return the name of a group."""
    return f"group-{number}"


def fill(host: str, port: int, groups: int) -> None:
    """Commit all offsets, round by round."""
    asker = Asker(host, port)
    for number in range(1, ROUNDS + 1):
        asker.commit(range(groups), number)
    asker.close()


def wait_for_offsets(host: str, port: int, groups: int) -> None:
    """Wait until the offsets of groups all over the log are returned, and are right. Raises StartFailed."""
    deadline = time.monotonic() + DEADLINE_S
    asker = None
    pending = [*range(0, groups, max(1, groups // 20)), groups - 1]
    while pending:
        if time.monotonic() > deadline:
            raise StartFailed(f"no offsets within {DEADLINE_S:.0f} s")
        try:
            asker = asker or Asker(host, port)
            error, offsets = asker.fetch(pending[-1])
        except (OSError, StartFailed):
            asker = None
            time.sleep(0.01)
            continue
        if error in _LOADING:
            time.sleep(0.01)
        elif error or offsets != [ROUNDS] * PARTITIONS:
            raise StartFailed(f"{group_id(pending[-1])}: error {error}, offsets {offsets[:5]} ...")
        else:
            pending.pop()
    if asker is not None:
        asker.close()


# --- Headgate ---


def headgate_starts(groups: int, rounds: int) -> Iterator[Start]:
    """Start Headgate with these offsets in all ways."""
    with _temporary() as home:
        broker = Broker(home / "data", _HEADGATE_SETTINGS, 0, DEADLINE_S, "warning")
        broker.start()
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS)
        fill(broker.host, broker.port, groups)
        broker.stop()
        (state,) = (home / "data").rglob(STATE_NAME)
        for _ in range(rounds):
            yield _start("Headgate, with a checkpoint", broker, groups, broker.stop)
        for _ in range(rounds):
            broker.start()
            asker = Asker(broker.host, broker.port)
            asker.commit(range(groups // 30), ROUNDS)
            asker.close()
            broker.kill()
            yield _start("Headgate, killed, with a checkpoint and a tail of 3 %", broker, groups, broker.stop)
        for _ in range(rounds):
            state.unlink()
            yield _start("Headgate, without a checkpoint", broker, groups, broker.kill)
            yield _start("Headgate, killed, without a checkpoint", broker, groups, broker.stop)


def _start(name: str, broker: Broker, groups: int, end: Callable[[], None]) -> Start:
    began = time.perf_counter()
    broker.start()
    wait_for_offsets(broker.host, broker.port, groups)
    seconds = time.perf_counter() - began
    assert broker.pid is not None
    processor_seconds = _processor_seconds(broker.pid)
    end()
    return Start(name, seconds, processor_seconds)


def _processor_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- Kafka ---


def kafka_starts(groups: int, rounds: int) -> Iterator[Start]:
    """Start Apache Kafka with the same offsets, after a clean stop each time."""
    with _temporary() as home:
        port, controller_port = kafka.free_ports(2)
        properties = kafka._properties(home / "data", port, controller_port, {}) | _KAFKA_SETTINGS
        kafka._write(home, properties)
        levels = (home / "log4j2.xml").read_text()
        runtime = "org.apache.kafka.coordinator"
        (home / "log4j2.xml").write_text(
            levels.replace("<Loggers>", f'<Loggers><Logger name="{runtime}" level="INFO"/>')
        )
        kafka._format(home)
        process = kafka._start(home, kafka.BROKER_JVM)
        try:
            kafka._wait_until_groups_are_answered(f"127.0.0.1:{port}", process, home / "kafka.log")
            create_topic(f"127.0.0.1:{port}", TOPIC, PARTITIONS)
            fill("127.0.0.1", port, groups)
            for _ in range(rounds):
                _stop(process)
                began = time.perf_counter()
                process = kafka._start(home, kafka.BROKER_JVM)
                wait_for_offsets("127.0.0.1", port, groups)
                seconds = time.perf_counter() - began
                used = _processor_seconds(process.pid)
                yield Start("Kafka 4.3.1", seconds, used, _loading_seconds(home / "kafka.log"))
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Let it close its logs; kill it if it does not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
            return


def _loading_seconds(log: Path) -> float | None:
    found = [int(match[2]) for match in _LOADED.finditer(log.read_text(errors="replace"))]
    return sum(found) / 1000 if found else None


@contextmanager
def _temporary() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


# --- the report ---


def bench_start(
    groups: Annotated[
        int, typer.Option(min=30, help="Groups, each of which commits 100 partitions.")
    ] = 30_000,
    rounds: Annotated[
        int, typer.Option(min=1, help="Starts of each kind, of which the median is taken.")
    ] = 3,
    json_file: Annotated[Path, typer.Option(help="Where the result is kept.")] = BUILD / "start.json",
) -> None:
    """Measures starts with many committed offsets, Headgate's and Kafka's."""
    # As installed: the modules are compiled to bytecode once, not at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    console = Console()
    starts: list[Start] = []
    sides = [headgate_starts]
    if problem := kafka.kafka_missing():
        console.print(f"[yellow]without kafka[/]: {problem}")
    else:
        sides.append(kafka_starts)
    for side in sides:
        for start in side(groups, rounds):
            console.print(f"{start.name}: {start.seconds:.2f} s")
            starts.append(start)
    records = groups * PARTITIONS * ROUNDS
    table = Table(title=f"from start to right offsets: {records // ROUNDS:,} offsets, {records:,} records")
    for column in ("start", "seconds", "processor seconds", "seconds of loading, by its own log"):
        table.add_column(column, justify="left" if column == "start" else "right")
    for name in dict.fromkeys(start.name for start in starts):
        some = [start for start in starts if start.name == name]
        loading = [one.loading_seconds for one in some if one.loading_seconds is not None]
        used = [one.processor_seconds for one in some if one.processor_seconds is not None]
        table.add_row(
            name,
            f"{median(one.seconds for one in some):.2f}",
            f"{median(used):.2f}" if used else "-",
            f"{median(loading):.2f}" if loading else "-",
        )
    console.print(table)
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps([asdict(start) for start in starts], indent=2) + "\n")


if __name__ == "__main__":
    typer.run(bench_start)

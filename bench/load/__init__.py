"""The load generators: child processes, compiled on first use.

`load.c` commits and fetches offsets, `members.c` plays members of consumer groups, `stay.c` those of classic
ones, `queue.c` those of a share group, `transactions.c` transactional producers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.paths import BUILD

SOURCES = Path(__file__).parent
PROGRAMS = BUILD / "load"
PATIENCE_S = 120.0
"""Maximum time for members to join and settle."""
SHARED = ("link", "options", "tally", "wire")
OFFSET_COMMIT = "offset-commit"
OFFSET_FETCH = "offset-fetch"
IN_TURN = "in-turn"
"""A commit and a fetch of the same group alternately."""


class LoadFailed(RuntimeError):
    """The load failed, or a broker gave an invalid answer; the message is the load generator's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The requests: `connections` times `window` in flight, each with `partitions` partitions."""

    api: str
    connections: int = 16
    window: int = 1
    partitions: int = 1
    groups: int = 0
    """Number of groups that are used in turn; 0: one for each connection."""
    rounds: int = 0
    """Number of requests for each group before the warm-up."""
    api_version: int = 8
    topic: str = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The responses after the warm-up. Latencies are from the request's write to the response's read."""

    requests: int
    seconds: float
    requests_per_s: float
    offsets_per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    missing: int
    """Number of requested partitions without an answer or without an offset."""
    errors: dict[str, int] = field(default_factory=dict)
    """Number of answers by Kafka's error code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLoad:
    """Transactional producers, each with a partition and a group of its own."""

    topic: str
    """The topic, with a partition for each producer; also the prefix of transactional ids and groups."""
    producers: int = 1
    records: int = 1
    """Number of records of 100 bytes in each transaction; one offset is committed with them."""
    most: int = 0
    """Number of transactions after which a producer ends; 0: when the time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Members of consumer groups, all subscribed to the same topics."""

    groups: int
    members: int
    """Number of members of each group."""
    topic: str
    """Name of the topic; with several topics, the prefix of their names."""
    topics: int = 1
    partitions: int
    """Number of partitions of all topics together."""
    connections: int = 16
    window: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicCrowd:
    """Members of classic groups, each the only one of its group."""

    members: int = 16
    connections: int = 16
    window: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicResult:
    """How classic members joined, and how their heartbeats were answered afterwards."""

    join_s: float
    """From the first join request to the response with the last member's assignment."""
    steady: LoadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Members of one share group, which take the records of a topic."""

    way: str
    """What they do with them: `implicit`, `explicit` or `hand-over`; see the head of `queue.c`."""
    members: int
    partitions: int
    """Number of partitions of the topic."""
    records: int
    """Number of records that are counted."""
    warm_up_records: int = 0
    """Number of records that are taken before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueResult:
    """How many records a second were taken and accepted, and how long the fetches or hand-overs took."""

    seconds: float
    records_per_s: float
    tally: LoadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The use of a broker by a crowd."""

    prefix: str
    """Prefix of the groups' names."""
    seconds: float = 0
    """Duration of the measured heartbeats, after all groups are settled and `warm_up` seconds."""
    warm_up: float = 0
    broker: int = 0
    """The broker's process id, to measure its processor time."""
    stay: int = 0
    """1: no member leaves at the end."""
    patience: float = PATIENCE_S
    """Maximum number of seconds until the groups are settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdResult:
    """How members joined, and how their heartbeats were answered afterwards."""

    join_s: float
    """From the first join request to the response to the last one."""
    settle_s: float
    """From the last join request until all members had acknowledged their target assignments."""
    settling_processor_s: float
    """The broker's processor time from the first join until then."""
    steady_processor_s: float
    settling: LoadResult
    steady: LoadResult


def build_load(name: str = "load") -> Path:
    """Return a compiled load generator. Raises LoadFailed if there is no C compiler or it fails."""
    program = PROGRAMS / name
    newest = max(path.stat().st_mtime for path in SOURCES.glob("*.[ch]"))
    if program.exists() and program.stat().st_mtime >= newest:
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise LoadFailed(f"a C compiler is needed to build bench/load/{name}.c (Debian: apt-get install gcc)")
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    sources = [str(SOURCES / f"{one}.c") for one in (name, *SHARED)]
    command = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(program), *sources]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise LoadFailed(f"bench/load/{name}.c does not compile: {done.stderr}")
    return program


def run_load(bootstrap: str, load: Load, *, seconds: float, warm_up_seconds: float) -> LoadResult:
    """Run load on the broker at `bootstrap`. Raises LoadFailed."""
    options: dict[str, Any] = {
        "port": bootstrap.rpartition(":")[2],
        "api": load.api,
        "api_version": load.api_version,
        "connections": load.connections,
        "window": load.window,
        "partitions": load.partitions,
        "groups": load.groups or load.connections,
        "rounds": load.rounds,
        "topic": load.topic,
        "seconds": seconds,
        "warm_up": warm_up_seconds,
    }
    limit_s = seconds + warm_up_seconds + (PATIENCE_S if load.rounds else 30)
    return LoadResult(**_run("load", options, limit_s=limit_s))


def run_transactions(
    bootstrap: str, load: TransactionLoad, *, seconds: float, warm_up_seconds: float
) -> LoadResult:
    """Run transactions on the broker at `bootstrap`; a request is a whole transaction. Raises LoadFailed."""
    options = {
        "port": bootstrap.rpartition(":")[2],
        **asdict(load),
        "partitions": load.producers,
        "prefix": load.topic,
        "seconds": seconds,
        "warm_up": warm_up_seconds,
    }
    result = _run("transactions", options, limit_s=seconds + warm_up_seconds + 30)
    return LoadResult(**result["transactions"])


def run_members(bootstrap: str, crowd: Crowd, visit: Visit) -> CrowdResult:
    """Let a crowd join and settle, measure its heartbeats, and let it leave. Raises LoadFailed."""
    options = {"port": bootstrap.rpartition(":")[2], **asdict(crowd), **asdict(visit)}
    limit_s = visit.warm_up + visit.seconds + visit.patience + 30
    result = _run("members", options, limit_s=limit_s)
    for phase in ("settling", "steady"):
        result[phase] = LoadResult(**result[phase])
    return CrowdResult(**result)


def run_stay(
    bootstrap: str, crowd: ClassicCrowd, *, prefix: str, seconds: float, warm_up_seconds: float
) -> ClassicResult:
    """Let a crowd join groups named `prefix-...`, and measure its heartbeats. Raises LoadFailed."""
    options = {
        "port": bootstrap.rpartition(":")[2],
        **asdict(crowd),
        "prefix": prefix,
        "seconds": seconds,
        "warm_up": warm_up_seconds,
    }
    result = _run("stay", options, limit_s=seconds + warm_up_seconds + PATIENCE_S)
    return ClassicResult(join_s=result["join_s"], steady=LoadResult(**result["steady"]))


def run_queue(bootstrap: str, topic: str, group: str, queue: Queue) -> QueueResult:
    """Let a new share group take the records of a topic. Raises LoadFailed."""
    options = {"port": bootstrap.rpartition(":")[2], "topic": topic, "group": group, **asdict(queue)}
    result = _run("queue", options, limit_s=PATIENCE_S + 30)
    return QueueResult(**result | {"tally": LoadResult(**result["tally"])})


def _run(name: str, options: dict[str, Any], *, limit_s: float) -> dict[str, Any]:
    """Return the output of a load generator."""
    words = [
        word for option, value in options.items() for word in (f"--{option.replace('_', '-')}", str(value))
    ]
    try:
        done = subprocess.run(
            [str(build_load(name)), *words], capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"{name} did not end within {limit_s:.0f} s") from None
    if done.returncode:
        raise LoadFailed(done.stderr.strip() or f"{name} ended with status {done.returncode}")
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed

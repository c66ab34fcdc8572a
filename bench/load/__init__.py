"""The load generator for the offset APIs: compiled from load.c when first needed, a child process."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.paths import BUILD

SOURCE = Path(__file__).with_name("load.c")
PROGRAM = BUILD / "load" / "load"
OFFSET_COMMIT = "offset-commit"
OFFSET_FETCH = "offset-fetch"


class LoadFailed(RuntimeError):
    """The load could not be made, or a broker gave an answer that is none; the message is load's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to ask: `connections` times `window` requests in flight, each about `partitions` partitions."""

    api: str
    connections: int = 16
    window: int = 1
    partitions: int = 1
    groups: int = 0
    """Groups that are worked on in turn; 0: one for each connection."""
    api_version: int = 8
    topic: str = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What was answered after the warm-up. Latencies are from the request's write to the answer's read."""

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
    """Partitions that were asked about and not answered, or that have no offset."""
    errors: dict[str, int] = field(default_factory=dict)
    """Answers by Kafka's error code."""


def build_load() -> Path:
    """The compiled load generator; raises LoadFailed if there is no C compiler or it fails."""
    if PROGRAM.exists() and PROGRAM.stat().st_mtime >= SOURCE.stat().st_mtime:
        return PROGRAM
    compiler = shutil.which("cc")
    if compiler is None:
        raise LoadFailed("a C compiler is needed to build bench/load/load.c (Debian: apt-get install gcc)")
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(PROGRAM), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise LoadFailed(f"bench/load/load.c does not compile: {done.stderr}")
    return PROGRAM


def run_load(bootstrap: str, load: Load, *, seconds: float, warm_up_seconds: float) -> LoadResult:
    """Loads the broker at `bootstrap` for that long; raises LoadFailed."""
    options: dict[str, Any] = {
        "port": bootstrap.rpartition(":")[2],
        "api": load.api,
        "api-version": load.api_version,
        "connections": load.connections,
        "window": load.window,
        "partitions": load.partitions,
        "groups": load.groups or load.connections,
        "topic": load.topic,
        "seconds": seconds,
        "warm-up": warm_up_seconds,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    limit_s = seconds + warm_up_seconds + 30
    try:
        done = subprocess.run(
            [str(build_load()), *words], capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"load did not end within {limit_s:.0f} s") from None
    if done.returncode:
        raise LoadFailed(done.stderr.strip() or f"load ended with status {done.returncode}")
    return LoadResult(**json.loads(done.stdout))

"""Child processes that end with the demo, however it ends.

Each child leads its own process group, so that Ctrl-C in the terminal reaches only the demo, which then stops
the groups in order; at exit it kills the remaining ones. If the demo itself is killed, the kernel ends its
children (Linux), or they see that their standard input is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

_running: set[subprocess.Popen[str]] = set()


def start(command: list[str], log: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a child with its standard output in a pipe and its standard error in `log`.

    Call it from the main thread: for the kernel, the parent of the child ends with the thread that started
    it.
    """
    with log.open("ab") as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
        )
    _running.add(child)
    return child


def stop(*those: subprocess.Popen[str], grace_s: float = 10.0) -> list[int]:
    """Terminate children at the same time; kill the groups of those that do not end. Return exit codes."""
    for child in those:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + grace_s
    for child in those:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, deadline - time.monotonic()))
    return [kill(child) for child in those]


def kill(child: subprocess.Popen[str]) -> int:
    """Kill a child and all processes that it started; return its exit code."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    _running.discard(child)
    return code


def end_all() -> None:
    """Kill every child that is still running."""
    for child in list(_running):
        kill(child)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def end_with_the_demo() -> None:
    """End the children with this process, however it ends."""
    atexit.register(end_all)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)

"""Child processes that do not outlive the demo, however it ends.

Each child leads a process group of its own, so that Ctrl-C in the terminal reaches the demo alone, which then
ends the groups in order; whatever is left at exit is killed. Should the demo itself be killed, the kernel
ends its children (Linux) or they notice that their standard input is closed.
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
    """Start a child whose standard output comes back through a pipe, its standard error going to `log`.

    To be called from the main thread: the kernel takes the end of the starting thread for the parent's.
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
    """Ask children to end, all at once and each once; kill the groups of those that do not. Exit codes."""
    for child in those:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + grace_s
    for child in those:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, deadline - time.monotonic()))
    return [kill(child) for child in those]


def kill(child: subprocess.Popen[str]) -> int:
    """Kill a child and all that it started, at once; its exit code."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    _running.discard(child)
    return code


def end_all() -> None:
    """Kill every child that still runs."""
    for child in list(_running):
        kill(child)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def end_with_the_demo() -> None:
    """From now on no way out of this process leaves a child behind."""
    atexit.register(end_all)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)

"""No child of the demo outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

from demo import children

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN);"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print(child.pid, flush=True); time.sleep(60)",
]


def is_running(pid: int) -> bool:
    """Whether a process is there and not just waiting to be buried."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_child_is_asked_first(tmp_path: Path) -> None:
    """SIGTERM ends a child that heeds it."""
    child = children.start(SLEEPER, tmp_path / "log")
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    assert children.stop(child) == [-signal.SIGTERM]
    _close(child)


def test_a_child_that_does_not_listen_is_killed_with_all_it_started(tmp_path: Path) -> None:
    """The whole process group goes."""
    child = children.start(STUBBORN, tmp_path / "log")
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    assert children.stop(child, grace_s=0.2) == [-signal.SIGKILL]
    _wait_until_gone(grandchild)
    _close(child)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_children_go_when_the_demo_goes(number: signal.Signals, tmp_path: Path) -> None:
    """However the demo is ended, a child that ignores SIGTERM is gone soon after."""
    program = (
        "import signal, sys, time; from pathlib import Path; from demo import children\n"
        # As at a terminal: a shell starts what it puts in the background with SIGINT ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "children.end_with_the_demo()\n"
        f"child = children.start({STUBBORN!r}, Path({str(tmp_path / 'log')!r}))\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as demo:
        assert demo.stdout is not None
        child = int(demo.stdout.readline())
        assert is_running(child)
        os.kill(demo.pid, number)
        demo.wait(10)
    _wait_until_gone(child)


def _wait_until_gone(pid: int) -> None:
    wait_until(lambda: not is_running(pid), f"process {pid} is gone", 5)


def _close(child: subprocess.Popen[str]) -> None:
    for stream in (child.stdin, child.stdout):
        assert stream is not None
        stream.close()

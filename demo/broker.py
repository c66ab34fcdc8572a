"""The broker of the demo: `headgate serve` as a child process, killed and started again on the same port."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from demo import children
from demo.story import DemoFailed

READY_TIMEOUT_S = 60.0
_SETTINGS = (
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
    "group.share.min.heartbeat.interval.ms=500",
    "group.share.heartbeat.interval.ms=500",
)
"""A group whose partitions the server assigns settles quickly; with the defaults, members wait 5 s."""

_READY = "headgate is listening on "


class DemoBroker:
    """One data directory, one address, and a process that can be killed and restarted."""

    def __init__(self, directory: Path) -> None:
        self.data_directory = directory / "data"
        self.log = directory / "broker.log"
        self.address = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Start the server; return the seconds until it was ready. The first start finds a free port."""
        began = time.monotonic()
        executable = Path(sys.executable).with_name("headgate")
        command = [str(executable), "serve", "--data-dir", str(self.data_directory), "--listen", self.address]
        command += [word for setting in _SETTINGS for word in ("--set", setting)]
        self._process = children.start(command, self.log)
        self.address = self._wait_until_ready(self._process)
        return time.monotonic() - began

    def kill(self) -> None:
        """Kill the server with SIGKILL: no clean shutdown, no flush."""
        assert self._process is not None
        children.kill(self._process)

    def stop(self) -> None:
        """Stop the server cleanly. Raises DemoFailed if it does not stop."""
        assert self._process is not None
        (code,) = children.stop(self._process)
        if code not in (0, -signal.SIGTERM):
            raise DemoFailed(f"the broker ended with exit code {code}; see {self.log}")

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            readable, _, _ = select.select([process.stdout], [], [], 0.1)
            line = process.stdout.readline() if readable else ""
            if line.startswith(_READY):
                return line.removeprefix(_READY).strip()
            if process.poll() is not None:
                raise DemoFailed(f"the broker ended with exit code {process.returncode}; see {self.log}")
        raise DemoFailed(f"the broker was not ready within {READY_TIMEOUT_S:.0f} s; see {self.log}")

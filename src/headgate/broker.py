"""A broker for as long as a `with` block lasts: the real server, in a process of its own."""

from __future__ import annotations

import contextlib
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

_READY = re.compile(r"headgate is listening on (\S+):(\d+)")

TEST_SETTINGS: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}
"""What `run` sets unless told otherwise: a group of one member need not wait for others."""


class BrokerFailed(RuntimeError):
    """The server did not start; the message holds what it printed."""


class Broker:
    """A running server: where it listens, where its data is, and how to stop, kill and start it again."""

    def __init__(
        self, data_dir: Path, settings: Mapping[str, str], port: int, start_timeout_s: float, log_level: str
    ) -> None:
        self.data_dir = data_dir
        self.host = "127.0.0.1"
        self.port = port
        self.advertise: str | None = None
        """host:port that clients are told to come to, if there is something in between; from a start on."""
        self._settings = dict(settings)
        self._start_timeout_s = start_timeout_s
        self._log_level = log_level
        self._process: subprocess.Popen[str] | None = None
        self.log_path = data_dir.parent / f"{data_dir.name}.log"

    @property
    def bootstrap_servers(self) -> str:
        """What clients take as `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process id, None while it is down."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server, again on the same port if it ran before; raises BrokerFailed."""
        command = [
            sys.executable, "-m", "headgate", "serve",
            "--data-dir", str(self.data_dir),
            "--listen", f"{self.host}:{self.port}",
            "--log-level", self._log_level,
            "--with-parent",
        ]  # fmt: skip
        if self.advertise is not None:
            command += ["--advertise", self.advertise]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.port = self._wait_until_ready()

    def _wait_until_ready(self) -> int:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + self._start_timeout_s
        failure = f"the server did not start within {self._start_timeout_s} s"
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while selector.select(max(0, deadline - time.monotonic())):
                line = self._process.stdout.readline()
                if not line:
                    failure = "the server ended before it was ready"
                    break
                if ready := _READY.match(line):
                    return int(ready[2])
        self.kill()
        said = self.log_path.read_text()
        raise BrokerFailed(f"{failure}:\n{said}")

    def stop(self) -> None:
        """Let the server close cleanly (SIGTERM)."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._forget()

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL); what was acknowledged is there at the next start."""
        if self._process is not None:
            self._process.kill()
            self._forget()

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        self._process = None

    def restart(self) -> None:
        """Stop cleanly and start again on the same port."""
        self.stop()
        self.start()


@contextlib.contextmanager
def run(
    settings: Mapping[str, str] | None = None,
    *,
    data_dir: Path | str | None = None,
    port: int = 0,
    start_timeout_s: float = 30,
    log_level: str = "info",
    advertise: str | None = None,
) -> Iterator[Broker]:
    """Run a server for as long as the `with` block lasts.

    `settings` are broker settings by Kafka's names, over TEST_SETTINGS. Without a `data_dir` the data lives
    in a temporary directory and goes with the block. Port 0 takes any free one. Clients that reach it through
    something else have to be told: `advertise`, host:port. Raises BrokerFailed.
    """
    with contextlib.ExitStack() as stack:
        if data_dir is None:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-"))
            data_dir = Path(home) / "data"
        chosen = {**TEST_SETTINGS, **(settings or {})}
        broker = Broker(Path(data_dir), chosen, port, start_timeout_s, log_level)
        broker.advertise = advertise
        broker.start()
        stack.callback(broker.stop)
        yield broker

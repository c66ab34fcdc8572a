"""A broker for the duration of a `with` block: the real server, in a process of its own."""

from __future__ import annotations

import contextlib
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

_READY = re.compile(r"headgate is listening on (\S+):(\d+)")

STOP_TIMEOUT_S = 30.0
START_TIMEOUT_S = 120.0
"""A server that cannot start ends at once: this is for slow or busy machines, and for large directories."""

TEST_SETTINGS: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}
"""Default settings of `run`: a group of one member does not wait for others."""


SettingValue = str | int | float
"""The value of a setting; a bool is one, too."""


def setting_text(value: SettingValue) -> str:
    """Return the value as a settings file has it: `true`, not Python's `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class BrokerFailed(RuntimeError):
    """The server did not start. The message has what it logged, with the cause in its first line."""


class Broker:
    """A running server, with its address and data directory; stop, kill and restart it here.

    `data_dir` is its data directory, `log_path` the file with its log, `host` and `port` its address.
    """

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, SettingValue],
        port: int,
        start_timeout_s: float,
        log_level: str,
    ) -> None:
        self.data_dir = data_dir
        self.host = "127.0.0.1"
        self.port = port
        self.advertise: str | None = None
        """host:port that the server advertises to clients, such as a proxy's; applied at the next start."""
        self._settings = dict(settings)
        self._start_timeout_s = start_timeout_s
        self._log_level = log_level
        self._process: subprocess.Popen[str] | None = None
        self.log_path = data_dir.parent / f"{data_dir.name}.log"

    def __repr__(self) -> str:
        """Return the address, the process and the directory."""
        state = f"pid {self.pid}" if self.pid is not None else "down"
        return f"<Broker at {self.bootstrap_servers}, {state}, data in {self.data_dir}>"

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id of the server; None while it is down."""
        return self._process.pid if self._process else None

    def why_ended(self) -> str | None:
        """Return how the server ended, as a sentence; None while it runs, and after `stop` or `kill`."""
        status = None if self._process is None else self._process.poll()
        if status is None:
            return None
        if status < 0:
            name = _signal_name(-status)
            hint = "; the kernel does that if memory runs out" if name == "SIGKILL" else ""
            return f"the server was ended by {name}{hint}"
        return f"the server ended by itself, with exit code {status}"

    def start(self) -> None:
        """Start the server, on its previous port if it ran before.

        Raises BrokerFailed, also for one that runs; that one is left alone. A start that is interrupted, for
        instance by the time limit of a test, leaves no server behind.
        """
        if self._process is not None and self._process.poll() is None:
            raise BrokerFailed(f"the server runs already, at {self.bootstrap_servers}")
        command = [
            # -P: a file of the current directory, such as queue.py, is not taken for a module of Python.
            sys.executable, "-P", "-m", "headgate", "serve",
            "--data-dir", str(self.data_dir),
            "--listen", f"{self.host}:{self.port}",
            "--log-level", self._log_level,
            "--with-parent",
        ]  # fmt: skip
        if self.advertise is not None:
            command += ["--advertise", self.advertise]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={setting_text(value)}"]
        with self._opened_log() as log:
            logged_before = log.tell()
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            self.port = self._wait_until_ready(logged_before)
        except BaseException:  # also what a signal raises: the time limit of a test, Ctrl-C
            self.kill()
            raise

    def _opened_log(self) -> TextIO:
        """Open the file for what the server logs, beside the data directory. Raises BrokerFailed."""
        try:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            return self.log_path.open("a")
        except OSError as error:
            raise BrokerFailed(
                f"the server cannot use the data directory {self.data_dir}: its log {self.log_path} cannot "
                f"be written ({error.strerror}); choose a data_dir in a directory that you can write to"
            ) from error

    def _wait_until_ready(self, logged_before: int) -> int:
        """Return the port that the server printed. Raises BrokerFailed with what it logged since."""
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + self._start_timeout_s
        ended = None
        failure = (
            f"the server was not ready after {self._start_timeout_s:g} s; if the machine is slow or busy, "
            "or the data large, give it more time: start_timeout_s of headgate.run, "
            "headgate_start_timeout of pytest"
        )
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while selector.select(max(0, deadline - time.monotonic())):
                line = self._process.stdout.readline()
                if not line:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(timeout=STOP_TIMEOUT_S)
                    ended = self._process.poll()
                    failure = self.why_ended() or "the server closed its output and did not end"
                    break
                if ready := _READY.match(line):
                    return int(ready[2])
        self.kill()
        said = self.log_path.read_bytes()[logged_before:].decode(errors="replace").splitlines()
        if said and ended is not None and ended > 0:  # the last line is the cause, and a summary has one line
            raise BrokerFailed("\n".join([f"{said[-1].removeprefix('headgate: ')} ({failure})", *said[:-1]]))
        raise BrokerFailed("\n".join([f"{failure}:", *(said or ["(it logged nothing)"])]))

    def stop(self) -> None:
        """Stop the server cleanly (SIGTERM)."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._forget()

    def kill(self) -> None:
        """Kill the server like a crash (SIGKILL). Acknowledged data is there at the next start."""
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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {number}"


@contextlib.contextmanager
def run(
    settings: Mapping[str, SettingValue] | None = None,
    *,
    data_dir: Path | str | None = None,
    port: int = 0,
    start_timeout_s: float = START_TIMEOUT_S,
    log_level: str = "info",
    advertise: str | None = None,
) -> Iterator[Broker]:
    """Run a server until the `with` block ends.

    `settings` are broker settings by Kafka's names. `group.initial.rebalance.delay.ms` is 0 unless they have
    it, so that a group of one member does not wait for others. Without a `data_dir` the data is in a
    temporary directory, which is removed at the end. Port 0 selects a free port. `start_timeout_s` is how
    long the start may take, in seconds. `advertise`, host:port, is the address for clients that connect
    through a proxy. Raises BrokerFailed, and ValueError for a `data_dir` that is an empty text.
    """
    with contextlib.ExitStack() as stack:
        if data_dir is None:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-"))
            data_dir = Path(home) / "data"
        elif not str(data_dir):  # such as a variable that is not set; Path("") is the current directory
            raise ValueError("data_dir is empty; leave it out for a temporary directory")
        chosen = {**TEST_SETTINGS, **(settings or {})}
        broker = Broker(Path(data_dir), chosen, port, start_timeout_s, log_level)
        broker.advertise = advertise
        broker.start()
        stack.callback(broker.stop)
        _RUNNING.append(broker)
        stack.callback(_RUNNING.remove, broker)
        yield broker


_RUNNING: list[Broker] = []


def running() -> tuple[Broker, ...]:
    """Return the brokers of this process whose `with` block of `run` has not ended, up or down."""
    return tuple(_RUNNING)

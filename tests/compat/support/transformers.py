"""Loops that consume, transform and produce in transactions, in processes that can be killed.

The process is transformer_program.py (Python libraries), node/transformer.js or java/Transformer.java.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.compat.support.java import JVM_START_S, java_command_of
from tests.compat.support.kafkajs import NODE
from tests.waiting import wait_until

PROGRAM = Path(__file__).with_name("transformer_program.py")
END_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """What a transformer is told."""

    library: str
    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    hold_at: int = -1
    """The number of the transaction that is held before its commit; -1: none."""
    session_timeout_ms: int = 2_000


def _command(told: Transformation) -> list[str]:
    asked = json.dumps(asdict(told))
    if told.library == "kafkajs":
        return ["node", str(NODE / "transformer.js"), asked]
    if told.library == "java":
        return java_command_of("Transformer", asked)
    return [sys.executable, str(PROGRAM), asked]


class Talker:
    """A process that says events in lines of JSON. What is left of it is killed at the end of its block."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by kill()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env=None if environment is None else os.environ | environment,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Talker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def said(self, event: str) -> list[dict[str, Any]]:
        """The events of a kind so far."""
        return [one for one in self.events if one["event"] == event]

    def wait_for(self, event: str) -> dict[str, Any]:
        """The first event of a kind; fails, with what the process said, when it does not come or ends."""

        def found() -> bool:
            assert self._process.poll() is None or self.said(event), self.trouble()
            return bool(self.said(event))

        wait_until(found, lambda: f"it says {event!r}: {self.trouble()}", JVM_START_S)
        return self.said(event)[0]

    def tell(self, line: str) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def trouble(self) -> str:
        """What it said and complained of."""
        self._errors.seek(0)
        return f"{self.events} {self._errors.read().decode(errors='replace')[-3000:]}"

    def kill(self) -> None:
        """End it as a crash does, with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_TIMEOUT_S)
        self._listener.join(END_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def transformer(told: Transformation) -> Talker:
    """Start a transformer."""
    return Talker(_command(told))

"""A process that says events in lines of JSON, and can be killed like one.

What it is to do it gets in one JSON argument; it ends properly when it reads the line `close`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

END_TIMEOUT_S = 30.0


class TalkingProcess:
    """Runs a command and passes the events that it says to `_hear`, in a thread."""

    def _start(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by end()
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

    def _hear(self, said: dict[str, Any]) -> None:
        """Take an event. Runs in the thread."""
        raise NotImplementedError

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._hear(json.loads(line))

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def tell(self, line: str) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        """Have it close its clients properly, and wait until it has."""
        self.tell("close")
        assert self._process.wait(END_TIMEOUT_S) == 0, self.complaints()
        self.end()

    def kill(self) -> float:
        """End it as a crash does, with SIGKILL. Return when that was, by time.monotonic()."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        at = time.monotonic()
        self.end()
        return at

    def end(self) -> None:
        """Make sure that nothing of it is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_TIMEOUT_S)
        self._listener.join(END_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def complaints(self) -> str:
        """Return the end of its standard error."""
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]

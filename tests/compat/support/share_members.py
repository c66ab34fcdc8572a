"""Members of a share group as processes: what they acquired, and what was refused to them.

The value of a record says what an explicit member makes of it: `reject...`, `release...` (the first time),
`renew...` (the first time, Java only), `poison...` (released always); anything else is accepted.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from tests.compat.support.java import java_share_member_command

PROGRAM = Path(__file__).with_name("share_member_program.py")
CLOSE_TIMEOUT_S = 30


@dataclass(frozen=True)
class ShareMembership:
    """What a member is told."""

    bootstrap: str
    group: str
    topic: str
    library: str
    explicit: bool = True
    holds: bool = False
    """Whether it keeps the first records it gets, and does nothing more."""
    acquire_mode: str = "batch_optimized"
    most: int = 500


@dataclass
class ShareMember:
    """One running member."""

    membership: ShareMembership
    records: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Partition, offset, value and delivery count of each record it got."""
    polls: list[int] = field(default_factory=list)
    """Number of records of each poll."""
    refusals: list[str] = field(default_factory=list)
    acknowledged: int = 0
    """How often its acknowledgements were answered."""
    kept: list[bool] = field(default_factory=list)
    """Of each poll, whether none of its acknowledgements was refused, by the broker or by the client."""

    def __post_init__(self) -> None:
        asked = json.dumps(asdict(self.membership))
        is_java = self.membership.library == "java"
        command = java_share_member_command(asked) if is_java else [sys.executable, str(PROGRAM), asked]
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by end()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __str__(self) -> str:
        self._errors.seek(0)
        complaints = self._errors.read().decode(errors="replace")[-1500:]
        return f"{self.membership.library}: {len(self.records)} records, {self.refusals}; {complaints}"

    @property
    def values(self) -> list[str]:
        return [value for _, _, value, _ in self.records]

    def leave(self) -> None:
        """Have it close its consumer properly."""
        assert self._process.stdin is not None
        self._process.stdin.write("close\n")
        self._process.stdin.flush()
        assert self._process.wait(CLOSE_TIMEOUT_S) == 0, str(self)
        self.end()

    def end(self) -> None:
        """Kill it, if it lives."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(CLOSE_TIMEOUT_S)
        self._listener.join(CLOSE_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            match said["event"]:
                case "records":
                    new = [(one[0], one[1], one[2], one[3]) for one in said["records"]]
                    self.records += new
                    self.polls.append(len(new))
                case "acknowledged":
                    self.refusals += said["refusals"]
                    self.kept.append(not said["refusals"])
                    self.acknowledged += 1
                case "failed":
                    self.refusals.append(said["error"])

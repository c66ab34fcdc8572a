"""What the next start would do with a log: the server's own code opens it, on an `Overlay`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.inspect.overlay import Overlay
from headgate.log.header import CorruptBatch
from headgate.log.log import Log, LogSettings, Recovery
from headgate.log.recovery import LogDamaged


@dataclass(slots=True, frozen=True)
class NextStart:
    """The outcome: the log opens, with what `recovery` cuts off, or does not, and `refusal` says why."""

    refusal: str | None = None
    recovery: Recovery | None = None

    def consequence(self) -> str:
        """What becomes of a log in which a bad batch stands."""
        if self.refusal is not None:
            return (
                "The server does not open this log and changes nothing in it, clients get a storage error. "
                "Restore the file from a copy."
            )
        if self.recovery is not None:
            return (
                f"Copy the directory before the next start: it ends the log at offset "
                f"{self.recovery.end_offset} and drops {self.recovery.dropped_bytes} bytes. Restore the file "
                "from a copy if there is one."
            )
        return (
            "The server opens the log, refuses to serve this batch, to clients and to itself, and serves all "
            "others. Restore the file from a copy if there is one."
        )


def next_start(directory: Path, settings: LogSettings, *, clean: bool) -> NextStart:
    """Open the log in `directory` as the next start would. A file that cannot be read is a refusal."""
    disk = Overlay()
    dropped: list[Recovery] = []
    try:
        Log.open(disk, directory, settings, clean=clean, on_truncated=dropped.append)
    except LogDamaged as problem:
        return NextStart(refusal=problem.strerror)
    except CorruptBatch as problem:
        return NextStart(refusal=problem.reason)
    except OSError as problem:
        return NextStart(refusal=f"{Path(problem.filename or directory).name}: {problem.strerror}")
    finally:
        disk.close()
    return NextStart(recovery=dropped[0] if dropped else None)

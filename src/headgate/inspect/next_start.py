"""The result of the next start for a log: the server's own code opens it on an `Overlay`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headgate.domain.settings import Settings
from headgate.inspect.directory import PartitionPlace
from headgate.inspect.overlay import Overlay
from headgate.log.damage import LogDamaged
from headgate.log.header import CorruptBatch
from headgate.log.log import Log, LogSettings, Recovery
from headgate.topics.policy import policy_of

MEND_OR_RESTORE: Final = (
    "With the server stopped, `headgate log mend` (a dry run) tells what can be kept; a backup of the whole "
    "data directory has the rest, but not what was written since."
)


@dataclass(slots=True, frozen=True)
class NextStart:
    """The result: the log opens and `recovery` truncates it, or `refusal` says why it does not open."""

    refusal: str | None = None
    recovery: Recovery | None = None

    def consequence(self) -> str:
        """Return the consequence and the advice for a log with a damaged batch."""
        if self.refusal is not None:
            return (
                "The server does not open this log and does not change it; clients get a storage error. "
                f"{MEND_OR_RESTORE}"
            )
        if self.recovery is not None:
            return (
                f"Copy the directory before the next start, which ends the log at offset "
                f"{self.recovery.end_offset} and drops {self.recovery.dropped_bytes} bytes. "
                f"{MEND_OR_RESTORE}"
            )
        return (
            "The server opens the log, refuses to serve this batch (if its header is wrong, all up to the "
            f"next index entry), and serves all others. {MEND_OR_RESTORE}"
        )


def settings_of(place: PartitionPlace | None) -> LogSettings:
    """Return the settings with which the next start opens a partition's log; None: the catalogue's."""
    if place is None:
        return LogSettings(keeps_all=True)
    overrides = place.entry.overrides if place.entry is not None else {}
    policy = policy_of(Settings(), overrides, is_always_compacted=False)
    return LogSettings(
        segment_bytes=policy.segment_bytes,
        index_interval_bytes=policy.index_interval_bytes,
        room_bytes=int(policy.is_durable),
    )


def next_start(directory: Path, settings: LogSettings, *, clean: bool) -> NextStart:
    """Open the log in `directory` like the next start, without changes. An unreadable file is a refusal."""
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

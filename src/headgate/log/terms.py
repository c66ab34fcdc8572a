"""How a log is cut up, and what it says when it cannot do what it is asked."""

from __future__ import annotations

from dataclasses import dataclass


class LogFailed(OSError):
    """The log takes no appends: an earlier write or sync failed and `recover` has not succeeded since."""


class OffsetOutOfRange(Exception):
    """The offset lies before the log's start or past its end."""


@dataclass(slots=True, frozen=True)
class LogSettings:
    """How a log is cut up. Sizes are bytes; `segment_ms` is compared with the batches' own timestamps."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    sync_on_roll: bool = True

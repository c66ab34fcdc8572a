"""Errors of a damaged log, which is not changed, so that its files can be restored from a copy."""

from __future__ import annotations

import errno
from pathlib import Path


class LogDamaged(OSError):
    """A log is damaged. It is not changed, so that files can be restored from a copy."""


class RecordsMissing(LogDamaged):
    """Durable records are missing."""


def missing(directory: Path, first: int, following: int, *, reason: str = "") -> RecordsMissing:
    """Return the error for missing records with offsets `first` to `following - 1`."""
    return RecordsMissing(
        errno.EIO,
        f"the records from {first} to {following - 1} are missing{reason}; restore the data directory "
        "from a copy (`headgate log verify` tells more)",
        str(directory),
    )


def out_of_order(path: Path, offset: int, expected: int) -> LogDamaged:
    """Return the error for a segment with an offset where another one was expected."""
    return LogDamaged(
        errno.EIO,
        f"offset {offset} is where {expected} was expected; restore the segment from a copy (`headgate log "
        "verify` tells more)",
        str(path),
    )

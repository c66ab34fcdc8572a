"""Errors of a damaged log, which is not changed, so that it can be mended, or restored from a copy."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

WHAT_NEXT: Final = "stop the server: `headgate log mend` (a dry run) tells what can be kept"
"""The next step of whoever reads the error."""


class LogDamaged(OSError):
    """A log is damaged. It is not changed, so that it can be mended, or restored from a copy."""


class RecordsMissing(LogDamaged):
    """Durable records are missing."""


def missing(directory: Path, first: int, following: int, *, reason: str = "") -> RecordsMissing:
    """Return the error for missing records with offsets `first` to `following - 1`."""
    return RecordsMissing(
        errno.EIO,
        f"records between {first} and {following - 1}, which were durable, cannot be read{reason}; "
        f"{WHAT_NEXT}",
        str(directory),
    )


def out_of_order(path: Path, offset: int, expected: int) -> LogDamaged:
    """Return the error for a segment with an offset where another one was expected."""
    return LogDamaged(
        errno.EIO,
        f"offset {offset} is where {expected} was expected; {WHAT_NEXT}",
        str(path),
    )

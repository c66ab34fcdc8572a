"""Names, times and counts as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

CUT_OFF: Final = "The file is empty: if this is a copy, its disk was full; copy the directory again."
"""Of a file that a server never leaves empty."""


def time_text(timestamp_ms: int) -> str:
    """Return a time in UTC with milliseconds; the number if it is out of range."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def plain(text: str) -> str:
    """Return a name, escaped if it is not printable."""
    return text if text.isprintable() else ascii(text)


def quoted(text: str) -> str:
    """Return a name in quotes, escaped if it is not printable."""
    return f'"{text}"' if text.isprintable() else ascii(text)

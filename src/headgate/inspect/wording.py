"""Values in words: names, times, counts."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(timestamp_ms: int) -> str:
    """A time in UTC to the millisecond; the number where no calendar has it."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def plain(text: str) -> str:
    """A name as it is, or escaped where a terminal should not see it."""
    return text if text.isprintable() else ascii(text)


def quoted(text: str) -> str:
    """A name between quotes."""
    return f'"{text}"' if text.isprintable() else ascii(text)


def counted(count: int, noun: str) -> str:
    """A number of things."""
    return f"{count} {noun}{'' if count == 1 else 's'}"

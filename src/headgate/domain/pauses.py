"""The reasons of pauses that tools make."""

from __future__ import annotations

from typing import Final

REWIND_REASON: Final = "rewind"
"""With this word begins the reason of every pause that a rewind makes. The rewind resumes them."""


def reason_of_rewind(reason: str) -> str:
    """Return the reason of a rewind's pause, given the caller's reason, which may be empty."""
    return f"{REWIND_REASON}: {reason}" if reason else REWIND_REASON


def is_of_rewind(reason: str) -> bool:
    """Return whether this is the reason of a rewind's pause."""
    return reason == REWIND_REASON or reason.startswith(f"{REWIND_REASON}: ")

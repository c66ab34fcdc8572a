"""The reasons of pauses that tools make."""

from __future__ import annotations

from typing import Final

REWIND_REASON: Final = "rewind"
"""With this word begins the reason of every pause that a rewind makes. The rewind resumes them."""


def reason_of_rewind(reason: str) -> str:
    """Return the reason of a rewind's pause, given the caller's reason, which may be empty."""
    return f"{REWIND_REASON}: {reason}" if reason else REWIND_REASON


def refuse_reason_of_rewind(reason: str) -> None:
    """Raises `ValueError` for the reason of a rewind's pause, which the next rewind would resume."""
    if is_of_rewind(reason):
        resumed = "is that of a rewind's pause, which the next rewind resumes"
        raise ValueError(f"the reason {reason!r} {resumed}: word it otherwise")


def is_of_rewind(reason: str) -> bool:
    """Return whether this is the reason of a rewind's pause."""
    return reason == REWIND_REASON or reason.startswith(f"{REWIND_REASON}: ")

"""A rate limit for log lines that clients can cause, with a count of the lines left out."""

from __future__ import annotations

from time import monotonic

EVERY_SECONDS = 5.0


class Seldom:
    """Decides whether another line may be logged."""

    __slots__ = ("_left", "_most", "_next_at", "_skipped")

    def __init__(self, most: int = 1) -> None:
        """`most`: lines allowed in EVERY_SECONDS."""
        self._most = self._left = most
        self._next_at = 0.0
        self._skipped = 0

    def is_time(self) -> bool:
        """Return whether to log now. Count the line if not."""
        now = monotonic()
        if now >= self._next_at:
            self._next_at = now + EVERY_SECONDS
            self._left = self._most
        if not self._left:
            self._skipped += 1
            return False
        self._left -= 1
        return True

    def take_skipped(self) -> int:
        """Return the number of lines left out since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

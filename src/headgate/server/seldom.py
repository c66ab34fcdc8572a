"""Log lines that clients can cause as often as they like: a few in a while, and how many were left out."""

from __future__ import annotations

from time import monotonic

EVERY_SECONDS = 5.0


class Seldom:
    """Tells whether it is time for another line."""

    __slots__ = ("_left", "_most", "_next_at", "_skipped")

    def __init__(self, most: int = 1) -> None:
        """`most`: how many lines in EVERY_SECONDS."""
        self._most = self._left = most
        self._next_at = 0.0
        self._skipped = 0

    def is_time(self) -> bool:
        """Whether to log now; a line that is not is counted."""
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
        """How many lines were left out since the last one."""
        skipped, self._skipped = self._skipped, 0
        return skipped

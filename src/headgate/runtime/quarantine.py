"""Keys whose commands made a shard fail. Their commands are refused for a while, so that others are served.

A shard that fails over to recovery answers no request meanwhile. A client that repeats the failing command
would keep it in this state. So commands of this key, a group id, are refused afterwards, for a time that
doubles with each further failure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 600.0
MOST_KEYS = 1024


class Quarantine:
    """Refused keys, each with its end; `seconds` is the clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._held: dict[Hashable, tuple[float, float]] = {}
        """End of the refusal by key, and its length."""
        self.over_at = 0.0
        """Time when the last key is forgotten; 0 if there is none. Every request reads it."""

    def is_empty(self) -> bool:
        """Return whether no key is remembered."""
        if not self.over_at:
            return True
        if self._seconds() < self.over_at:
            return False
        self._held.clear()
        self.over_at = 0.0
        return True

    def blame(self, key: Hashable) -> float:
        """Refuse a key from now on. Return for how many seconds. None means an unknown key."""
        if key is None:
            self.over_at = max(self.over_at, self._seconds() + FIRST_SECONDS)
            return 0.0
        _, before = self._held.pop(key, (0.0, 0.0))
        length = min(before * 2, LONGEST_SECONDS) if before else FIRST_SECONDS
        if len(self._held) >= MOST_KEYS:
            del self._held[next(iter(self._held))]
        until = self._seconds() + length
        self._held[key] = until, length
        self.over_at = max(self.over_at, until + length)
        return length

    def holds(self, key: Hashable) -> bool:
        """Return whether a key is refused. Forget it after as long without another failure."""
        found = self._held.get(key)
        if found is None:
            return False
        until, length = found
        now = self._seconds()
        if now > until + length:
            del self._held[key]
        return now < until

"""Keys whose commands made a shard fail: they are refused for a while, so that it can serve all others.

A shard that fails over to recovery answers nobody meanwhile. A client that repeats the command it failed over
for would keep it so. The key, a group's id, is refused after that, twice as long each time it happens again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 600.0
MOST_KEYS = 1024


class Quarantine:
    """Some keys, each until a time; `seconds` is the clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._held: dict[Hashable, tuple[float, float]] = {}
        """Until when a key is refused, and for how long it was."""
        self.over_at = 0.0
        """When nothing is remembered any more; 0 while nothing is, which every request asks."""

    def is_empty(self) -> bool:
        """Whether nothing was blamed in a while."""
        if not self.over_at:
            return True
        if self._seconds() < self.over_at:
            return False
        self._held.clear()
        self.over_at = 0.0
        return True

    def blame(self, key: Hashable) -> float:
        """Refuse a key from now on; for how many seconds. None: it is not known which."""
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
        """Whether a key is refused. One that was not blamed again for as long as that is forgotten."""
        found = self._held.get(key)
        if found is None:
            return False
        until, length = found
        now = self._seconds()
        if now > until + length:
            del self._held[key]
        return now < until

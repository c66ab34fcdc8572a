"""Names of deleted topics that cannot be used again yet, because something is still kept by them.

What is found by a topic's name alone, as committed offsets are, must be gone before another topic takes the
name, or it would be the other one's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from headgate.domain.ids import TopicName


class HeldNames:
    """The names that are held, and who waits for them."""

    def __init__(self) -> None:
        self._holders: Counter[TopicName] = Counter()
        self._waiting: dict[TopicName, list[Callable[[], None]]] = {}

    def __contains__(self, name: TopicName) -> bool:
        return name in self._waiting

    def hold(self, name: TopicName) -> None:
        """Nobody may use the name until it is released, by each who holds it."""
        self._holders[name] += 1
        self._waiting.setdefault(name, [])

    def release(self, name: TopicName) -> None:
        """One holder needs it no more; the last of them makes it free, and those who wait for it learn it."""
        self._holders[name] -= 1
        if self._holders[name] > 0:
            return
        del self._holders[name]
        for on_free in self._waiting.pop(name, ()):
            on_free()

    def when_free(self, name: TopicName, on_free: Callable[[], None]) -> None:
        """Call `on_free` as soon as the name is free, which may be now."""
        if name in self._waiting:
            self._waiting[name].append(on_free)
        else:
            on_free()

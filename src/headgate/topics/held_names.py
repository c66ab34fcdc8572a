"""Names of deleted topics that cannot be reused yet, because state is still stored under them.

State that is stored under a topic's name alone, as committed offsets are, must be removed before another
topic takes the name; otherwise it would belong to that topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from headgate.domain.ids import TopicName


class HeldNames:
    """The held names, and the callbacks that wait for their release."""

    def __init__(self) -> None:
        self._holders: Counter[TopicName] = Counter()
        self._waiting: dict[TopicName, list[Callable[[], None]]] = {}

    def __contains__(self, name: TopicName) -> bool:
        return name in self._waiting

    def hold(self, name: TopicName) -> None:
        """Reserve the name until each holder has released it."""
        self._holders[name] += 1
        self._waiting.setdefault(name, [])

    def release(self, name: TopicName) -> None:
        """Release one hold; the last release frees the name and calls the waiting callbacks."""
        self._holders[name] -= 1
        if self._holders[name] > 0:
            return
        del self._holders[name]
        for on_free in self._waiting.pop(name, ()):
            on_free()

    def when_free(self, name: TopicName, on_free: Callable[[], None]) -> None:
        """Call `on_free` when the name is free, which may be now."""
        if name in self._waiting:
            self._waiting[name].append(on_free)
        else:
            on_free()

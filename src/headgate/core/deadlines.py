"""When what is due: named deadlines in a heap, so that thousands of sessions cost O(log n) each at most.

Moving a deadline away, which every heartbeat does, touches no heap: the entry stays, and when it surfaces too
early it is put back where it now belongs.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from headgate.domain.ids import Millis

KeyT = TypeVar("KeyT", bound=Hashable)

_STALE_ENTRIES = 64


class Deadlines(Generic[KeyT]):
    """A set of keys, each with the time it is due."""

    __slots__ = ("_due", "_heap", "_is_surfaced", "_queued", "_serial")

    def __init__(self) -> None:
        self._due: dict[KeyT, Millis] = {}
        self._queued: dict[KeyT, Millis] = {}
        """Under which time the key is in the heap; earlier than or equal to when it is due."""
        self._heap: list[tuple[Millis, int, KeyT]] = []
        self._is_surfaced = True
        """Whether the top of the heap is true: nothing was set or cancelled since it was made so."""
        self._serial = 0
        """Keeps keys that are due at the same time in the order they were set."""

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: KeyT, due: Millis) -> None:
        """The key is due at this time, no longer at any other."""
        self._is_surfaced = False
        self._due[key] = due
        queued = self._queued.get(key)
        if queued is None or due < queued:
            self._push(key, due)

    def cancel(self, key: KeyT) -> None:
        """The key is not due at any time."""
        if self._due.pop(key, None) is None:
            return
        self._is_surfaced = False
        if len(self._heap) > _STALE_ENTRIES + 2 * len(self._due):
            self._clean()

    def due_at(self, key: KeyT) -> Millis | None:
        """When the key is due, if it is."""
        return self._due.get(key)

    def next(self) -> Millis | None:
        """The earliest time at which something is due."""
        if not self._is_surfaced:
            self._surface()
        return self._heap[0][0] if self._heap else None

    def pop(self, now: Millis) -> KeyT | None:
        """A key that is due by now, which is then no longer due; None when there is none."""
        self._surface()
        if not self._heap or self._heap[0][0] > now:
            return None
        self._is_surfaced = False
        _, _, key = heappop(self._heap)
        del self._queued[key]
        del self._due[key]
        return key

    def _push(self, key: KeyT, due: Millis) -> None:
        self._serial += 1
        self._queued[key] = due
        heappush(self._heap, (due, self._serial, key))

    def _surface(self) -> None:
        """Bring a true entry to the top: drop the outdated ones, put back those that moved away."""
        self._is_surfaced = True
        while self._heap:
            queued, _, key = self._heap[0]
            due = self._due.get(key)
            if due == queued == self._queued.get(key):
                return
            heappop(self._heap)
            if self._queued.get(key) == queued:
                del self._queued[key]
                if due is not None:
                    self._push(key, due)

    def _clean(self) -> None:
        """Most entries are outdated: keep those of keys that are due."""
        self._heap = []
        self._queued = dict(self._due)
        for key, due in self._due.items():
            self._serial += 1
            self._heap.append((due, self._serial, key))
        heapify(self._heap)

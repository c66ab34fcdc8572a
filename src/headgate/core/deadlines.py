"""When what is due: named deadlines in a heap, so that thousands of sessions cost O(log n) each at most.

Moving a deadline away, which every heartbeat does, touches no heap: the entry stays where it is, and when
its time comes it is put where it now belongs. So a session costs the heap something once in its length, not
once a heartbeat, and `next` may tell a time at which nothing is due any more.

Whoever handles all that is due by some time begins with `begin_tick`: what a handler sets to that time or an
earlier one is due a millisecond later. So the tick comes to an end, even if each handler sets its own key
again at once, also by a mistake.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from headgate.domain.ids import Millis

KeyT = TypeVar("KeyT", bound=Hashable)

_STALE_ENTRIES = 64
_AT_ANY_TIME = Millis(-(2**63))


class _Entry(Generic[KeyT]):
    """A key that is due: when, and under which time it is found in the heap, never a later one."""

    __slots__ = ("due", "key", "queued")

    def __init__(self, key: KeyT, due: Millis) -> None:
        self.key = key
        self.due: Millis | None = due
        """None: at no time any more."""
        self.queued = due


class Deadlines(Generic[KeyT]):
    """A set of keys, each with the time it is due."""

    __slots__ = ("_earliest", "_entries", "_heap", "_serial")

    def __init__(self) -> None:
        self._entries: dict[KeyT, _Entry[KeyT]] = {}
        self._heap: list[tuple[Millis, int, _Entry[KeyT]]] = []
        self._serial = 0
        """Keeps keys that are due at the same time in the order they were set."""
        self._earliest = _AT_ANY_TIME
        """No key can be set to a time before this one."""

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: KeyT, due: Millis) -> None:
        """The key is due at this time, no longer at any other."""
        if due < self._earliest:
            due = self._earliest
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, due)
            self._push(entry, due)
            return
        entry.due = due
        if due < entry.queued:
            self._push(entry, due)

    def cancel(self, key: KeyT) -> None:
        """The key is not due at any time."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        entry.due = None
        if len(self._heap) > _STALE_ENTRIES + 2 * len(self._entries):
            self._clean()

    def due_at(self, key: KeyT) -> Millis | None:
        """When the key is due, if it is."""
        entry = self._entries.get(key)
        return None if entry is None else entry.due

    def next(self) -> Millis | None:
        """A time before which nothing is due; None: nothing is due at any time."""
        return self._heap[0][0] if self._entries else None

    def begin_tick(self, now: Millis) -> None:
        """From here to `end_tick` keys are set to times after this one only."""
        self._earliest = Millis(now + 1)

    def end_tick(self) -> None:
        """Keys can be set to any time again."""
        self._earliest = _AT_ANY_TIME

    def peek(self, now: Millis) -> KeyT | None:
        """The key that `pop` would take out; None when nothing is due by now."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            queued, _, entry = heap[0]
            due = entry.due
            if due == queued == entry.queued:
                return entry.key
            heappop(heap)
            if due is not None and queued == entry.queued:
                self._push(entry, due)
        return None

    def pop(self, now: Millis) -> KeyT | None:
        """A key that is due by now, which is then no longer due; None when there is none."""
        key = self.peek(now)
        if key is not None:
            heappop(self._heap)
            self._entries.pop(key).due = None
        return key

    def _push(self, entry: _Entry[KeyT], due: Millis) -> None:
        self._serial += 1
        entry.queued = due
        heappush(self._heap, (due, self._serial, entry))

    def _clean(self) -> None:
        """Most entries are outdated: keep those of keys that are due."""
        self._heap = []
        for entry in self._entries.values():
            assert entry.due is not None
            self._serial += 1
            entry.queued = entry.due
            self._heap.append((entry.due, self._serial, entry))
        heapify(self._heap)

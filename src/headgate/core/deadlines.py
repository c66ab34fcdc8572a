"""Named deadlines in a heap, so that thousands of sessions cost at most O(log n) each.

Moving a deadline to a later time, which every heartbeat does, does not change the heap: the entry stays where
it is, and is moved to its right place when its old time comes. So a session changes the heap once per session
timeout, not once per heartbeat, and `next` may return a time at which nothing is due any more.

A handler of all due keys begins with `begin_tick`: a key that is set to that time or an earlier one is then
due a millisecond later. So the tick ends even if each handler sets its own key again at once, also by
mistake.
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
    """A key, the time it is due, and its time in the heap, which is never later."""

    __slots__ = ("due", "key", "queued")

    def __init__(self, key: KeyT, due: Millis) -> None:
        self.key = key
        self.due: Millis | None = due
        """None if it was cancelled."""
        self.queued = due


class Deadlines(Generic[KeyT]):
    """A set of keys, each with the time it is due."""

    __slots__ = ("_earliest", "_entries", "_heap", "_serial")

    def __init__(self) -> None:
        self._entries: dict[KeyT, _Entry[KeyT]] = {}
        self._heap: list[tuple[Millis, int, _Entry[KeyT]]] = []
        self._serial = 0
        """Keeps keys that are due at the same time in the order in which they were set."""
        self._earliest = _AT_ANY_TIME
        """Minimum of the times that keys can be set to."""

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: KeyT, due: Millis) -> None:
        """Set the time at which the key is due; replaces an earlier one."""
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
        """Cancel the key's deadline, if it has one."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        entry.due = None
        if len(self._heap) > _STALE_ENTRIES + 2 * len(self._entries):
            self._clean()

    def due_at(self, key: KeyT) -> Millis | None:
        """Return when the key is due; None if it is not set."""
        entry = self._entries.get(key)
        return None if entry is None else entry.due

    def next(self) -> Millis | None:
        """Return a time before which nothing is due; None if no key is set."""
        return self._heap[0][0] if self._entries else None

    def begin_tick(self, now: Millis) -> None:
        """Set keys only to times after this one, until `end_tick`."""
        self._earliest = Millis(now + 1)

    def end_tick(self) -> None:
        """Allow any time for keys again."""
        self._earliest = _AT_ANY_TIME

    def peek(self, now: Millis) -> KeyT | None:
        """Return the key that `pop` would remove; None if nothing is due."""
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
        """Remove and return a key that is due; None if there is none."""
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
        """Remove the outdated entries, which are most of the heap."""
        self._heap = []
        for entry in self._entries.values():
            assert entry.due is not None
            self._serial += 1
            entry.queued = entry.due
            self._heap.append((entry.due, self._serial, entry))
        heapify(self._heap)

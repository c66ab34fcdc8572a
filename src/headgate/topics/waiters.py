"""The registry of long polls: an append wakes the readers that wait for its partition.

A waiter names its partitions and the number of bytes it still needs. `notify` subtracts the bytes that became
visible in a partition, and calls `on_ready` when the number reaches 0. The number is an estimate: a waiter
that finds too few bytes registers again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from headgate.domain.ids import TopicId

PartitionKey = tuple[TopicId, int]

_WIDE = 1000
"""A waiter with more partitions is not indexed by partition; each append checks whether it is concerned."""


class Waiter:
    """One long poll, registered until it is removed or its `on_ready` is called."""

    __slots__ = ("_keys", "_missing_bytes", "_on_ready")

    def __init__(
        self, keys: tuple[PartitionKey, ...], missing_bytes: int, on_ready: Callable[[], None]
    ) -> None:
        self._keys = keys
        self._missing_bytes = missing_bytes
        self._on_ready = on_ready


class Waiters:
    """All waiters, by partition."""

    __slots__ = ("_by_key", "_wide")

    def __init__(self) -> None:
        self._by_key: dict[PartitionKey, dict[Waiter, None]] = {}
        self._wide: dict[Waiter, dict[PartitionKey, None]] = {}
        """Waiters with more than `_WIDE` partitions, which would take long to index."""

    def __len__(self) -> int:
        """Number of partitions waited for; those of wide waiters count once per waiter."""
        return len(self._by_key) + sum(map(len, self._wide.values()))

    def add(self, keys: Iterable[PartitionKey], missing_bytes: int, on_ready: Callable[[], None]) -> Waiter:
        """Register a waiter: `on_ready` is called once, when `missing_bytes` more are visible in these
        partitions together.
        """
        different = dict.fromkeys(keys)
        if len(different) > _WIDE:
            waiter = Waiter((), missing_bytes, on_ready)
            self._wide[waiter] = different
            return waiter
        waiter = Waiter(tuple(different), missing_bytes, on_ready)
        for key in waiter._keys:
            self._by_key.setdefault(key, {})[waiter] = None
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter; do nothing if it is removed already."""
        for key in waiter._keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(waiter, None)
                if not waiting:
                    del self._by_key[key]
        waiter._keys = ()
        if self._wide:
            self._wide.pop(waiter, None)

    def _waiting_for(self, key: PartitionKey) -> Collection[Waiter]:
        waiting: Collection[Waiter] = self._by_key.get(key, ())
        if self._wide:
            wide = [waiter for waiter, keys in self._wide.items() if key in keys]
            return [*waiting, *wide]
        return waiting

    def notify(self, key: PartitionKey, new_bytes: int) -> None:
        """Count `new_bytes` that became visible in this partition."""
        waiting = self._waiting_for(key)
        if not waiting:
            return
        ready = []
        for waiter in waiting:
            waiter._missing_bytes -= new_bytes
            if waiter._missing_bytes <= 0:
                ready.append(waiter)
        self._release(ready)

    def wake_all(self, key: PartitionKey) -> None:
        """Wake all readers of this partition, for a change other than new records."""
        self._release(list(self._waiting_for(key)))

    def wake_topic(self, topic_id: TopicId) -> None:
        """Wake all readers of a deleted topic."""
        keys = [key for key in self._by_key if key[0] == topic_id]
        waiting = {waiter: None for key in keys for waiter in self._by_key[key]}
        for waiter, wanted in self._wide.items():
            if any(key[0] == topic_id for key in wanted):
                waiting[waiter] = None
        self._release(list(waiting))

    def _release(self, ready: list[Waiter]) -> None:
        for waiter in ready:
            self.remove(waiter)
        for waiter in ready:
            waiter._on_ready()

"""Who waits for records: the registry behind long polls. Nobody polls; whoever appends wakes the readers.

A waiter names its partitions and how many bytes it lacks. `notify` takes what a partition's readers can see
anew off that number, and calls `on_ready` once it is used up. The number is an estimate: a waiter that
finds too little when it looks puts itself back with what it still lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from headgate.domain.ids import TopicId

PartitionKey = tuple[TopicId, int]

_WIDE = 1000
"""Whoever waits for more partitions than that is asked at each append whether it is one of them."""


class Waiter:
    """One long poll, from `Waiters.add` until it is removed or called ready."""

    __slots__ = ("_keys", "_missing_bytes", "_on_ready")

    def __init__(
        self, keys: tuple[PartitionKey, ...], missing_bytes: int, on_ready: Callable[[], None]
    ) -> None:
        self._keys = keys
        self._missing_bytes = missing_bytes
        self._on_ready = on_ready


class Waiters:
    """Every waiter, by the partitions it waits for."""

    __slots__ = ("_by_key", "_wide")

    def __init__(self) -> None:
        self._by_key: dict[PartitionKey, dict[Waiter, None]] = {}
        self._wide: dict[Waiter, dict[PartitionKey, None]] = {}
        """Those who wait for so many partitions that to note each of them would take long."""

    def __len__(self) -> int:
        """Partitions that somebody waits for."""
        return len(self._by_key) + sum(map(len, self._wide.values()))

    def add(self, keys: Iterable[PartitionKey], missing_bytes: int, on_ready: Callable[[], None]) -> Waiter:
        """Wait until `missing_bytes` more can be read from these partitions together; `on_ready` is called
        once.
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
        """Forget a waiter; one that is gone already makes it a no-op."""
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
        """Readers of this partition can see `new_bytes` more than before."""
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
        """Something other than records happened to this partition that its readers must be told."""
        self._release(list(self._waiting_for(key)))

    def wake_topic(self, topic_id: TopicId) -> None:
        """A topic is no more: everybody who waits for one of its partitions must be told."""
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

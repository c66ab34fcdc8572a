"""The fetches that wait for records of one share-partition.

They are woken in the order in which they came, when records were appended, released, or when acknowledgements
made room in the window. One that got nothing keeps its place. Each iteration of the loop wakes a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from headgate.core.share.sessions import PartitionKey
from headgate.server.shares.surroundings import Surroundings
from headgate.topics.waiters import Waiter, Waiters

_WOKEN_AT_ONCE: Final = 20
_WAKING_MS: Final = 3
"""Time after which no more fetches are woken in one iteration of the loop."""

PartitionT = TypeVar("PartitionT")
PartitionT_contra = TypeVar("PartitionT_contra", contravariant=True)


class WaitingFetch(Protocol[PartitionT_contra]):
    """A fetch that waits for records of a share-partition, and perhaps of others."""

    def look(self, partition: PartitionT_contra) -> bool:
        """Try again, as `partition` has something; return whether the fetch is answered."""
        ...


class WaitingFetches(Generic[PartitionT]):
    """The fetches that wait at one share-partition."""

    def __init__(
        self,
        node: Surroundings,
        key: PartitionKey,
        partition: PartitionT,
        has_something: Callable[[], bool],
    ) -> None:
        """`has_something` returns whether a fetch may get records of `partition`, or an error."""
        self._node = node
        self._key = key
        self._partition = partition
        self._has_something = has_something
        self._queue: dict[WaitingFetch[PartitionT], None] = {}
        self._waiter: Waiter | None = None
        """Waits for an append to the log."""
        self._watched: Waiters | None = None
        """Where it waits."""
        self._is_waking = False
        self.is_committed = False
        """Whether committed records only are waited for."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, fetch: WaitingFetch[PartitionT]) -> None:
        """Let a fetch wait, behind the others."""
        self._queue[fetch] = None
        self.watch()

    def remove(self, fetch: WaitingFetch[PartitionT]) -> None:
        """Let a fetch wait no more."""
        self._queue.pop(fetch, None)
        if not self._queue:
            self.stop_watching()

    def watch(self) -> None:
        """Wait for an append, if a fetch waits."""
        if self._queue and self._waiter is None:
            topics = self._node.topics
            self._watched = topics.committed_waiters if self.is_committed else topics.waiters
            self._waiter = self._watched.add((self._key,), 1, self._appended)

    def watch_again(self, *, is_committed: bool) -> None:
        """Wait for another kind of append: the isolation level of the group may have changed."""
        self.stop_watching()
        self.is_committed = is_committed
        self.watch()

    def stop_watching(self) -> None:
        """Wait for no append."""
        if self._waiter is not None and self._watched is not None:
            self._watched.remove(self._waiter)
            self._waiter = None

    def _appended(self) -> None:
        self._waiter = None
        self.wake()

    def wake(self) -> None:
        """Let waiting fetches look again, in one of the next iterations of the loop."""
        if self._queue and not self._is_waking:
            self._is_waking = True
            self._node.soon(self._wake_some)

    def _wake_some(self) -> None:
        self._is_waking = False
        end = self._node.steady_time() + _WAKING_MS
        for fetch in list(islice(self._queue, _WOKEN_AT_ONCE)):
            if not self._has_something() or not fetch.look(self._partition):
                break
            if self._node.steady_time() > end:
                self.wake()
                break
        else:
            self.wake()
        self.watch()

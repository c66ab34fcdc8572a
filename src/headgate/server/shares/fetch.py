"""One fetch of a member of a share group, which may wait for records of any of its partitions.

It is answered as soon as it acquired something, found an error, or has waited long enough. Partitions are
looked at in the order of the request until there are enough records, some in each step. `min_bytes` is not
waited for: what is available is acquired at once. A fetch whose session has ended acquires nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.api.contract import RequestSteps
from headgate.core.share.fetching import DeliveredRecords, ShareFetchWish
from headgate.core.share.sessions import PartitionKey
from headgate.server.shares.partition import Portion, SharedPartition
from headgate.server.shares.surroundings import Surroundings

MOST_BYTES: Final = 1 << 20
"""A response has no more bytes of records, but at least one batch."""
MOST_PARTITIONS: Final = 500
"""A response has no more partitions. Members get the rest with their next fetches, which begin elsewhere."""
ENOUGH_RANGES: Final = 300
"""With so many ranges of records a response is complete: each of them takes some microseconds."""
AT_ONCE: Final = 50
"""Partitions that are looked at in one step."""

OnDelivered = Callable[[list[DeliveredRecords]], None]
Find = Callable[[PartitionKey], SharedPartition]


class ShareFetch:
    """One fetch, from its arrival to its result."""

    def __init__(self, node: Surroundings, wish: ShareFetchWish, find: Find, on_done: OnDelivered) -> None:
        self._node = node
        self._wish = wish
        self._find = find
        self._on_done = on_done
        self._cancel_timeout: Callable[[], None] | None = None
        self._found: list[DeliveredRecords] = []
        self._records_left = wish.max_records
        self._bytes_left = min(wish.max_bytes, MOST_BYTES)
        self._ranges_left = ENOUGH_RANGES
        self._waits_at: list[SharedPartition] = []
        self._is_done = False

    def begin(self) -> RequestSteps[None]:
        """Look at all partitions, in steps; answer if there is something, else wait."""
        keys = self._wish.partitions
        if self._wish.max_records <= 0:
            keys = ()
        for first in range(0, len(keys), AT_ONCE):
            partitions = [self._find(key) for key in keys[first : first + AT_ONCE]]
            for partition in partitions:
                if self._take(partition):
                    return
                if self._found:
                    yield None
            if not self._found:
                for partition in partitions:
                    partition.wait(self)
                self._waits_at += partitions
            if first + AT_ONCE < len(keys):
                yield None
        self._looked_at_all(is_waiting=bool(keys))

    def _looked_at_all(self, *, is_waiting: bool) -> None:
        if self._is_done:
            return
        wait_ms = max(0, self._wish.max_wait_ms)
        is_loading = any(not one.is_loaded for one in self._waits_at)
        if self._found or not is_waiting or not (wait_ms or is_loading):
            self._finish()
        else:
            self._cancel_timeout = self._node.call_later(wait_ms, self._finish)

    def look(self, partition: SharedPartition) -> bool:
        """Acquire what there is, and answer if that is anything; return whether the fetch is answered.

        `partition` is the one that has something. Of many, no others are looked at.
        """
        for one in self._waits_at if len(self._waits_at) <= AT_ONCE else (partition,):
            if self._take(one):
                return True
        if self._found:
            self._finish()
        return self._is_done

    def _take(self, partition: SharedPartition) -> bool:
        """Acquire records; return whether the fetch is answered, because it has enough or has ended."""
        if self._is_done:
            return True
        wish = self._wish
        if wish.session.has_ended:
            self._finish()
            return True
        portion = Portion(
            wish.session.member_id, self._bytes_left, self._records_left, wish.batch_size, wish.mode
        )
        delivered = partition.fetch(portion)
        if delivered is None:
            return False
        if delivered.acquired:
            wish.session.acquired_from[delivered.key] = None
        self._found.append(delivered)
        self._records_left -= delivered.record_count
        self._bytes_left -= len(delivered.records)
        self._ranges_left -= len(delivered.acquired)
        is_enough = min(self._records_left, self._bytes_left, self._ranges_left) <= 0
        if is_enough or len(self._found) >= MOST_PARTITIONS:
            self._finish()
        return self._is_done

    def cancel(self) -> None:
        """Give the fetch up: its connection is lost."""
        self._is_done = True
        self._leave()

    def _finish(self) -> None:
        self._is_done = True
        self._leave()
        self._on_done(self._found)

    def _leave(self) -> None:
        """Wait no more; leave many partitions in several iterations of the loop."""
        if self._cancel_timeout is not None:
            self._cancel_timeout()
            self._cancel_timeout = None
        rest = self._waits_at
        for _ in range(min(len(rest), 10 * AT_ONCE)):
            rest.pop().leave(self)
        if rest:
            self._node.soon(self._leave)

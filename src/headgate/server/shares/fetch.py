"""One fetch of a member of a share group, which may wait for records of any of its partitions.

It is answered as soon as it acquired something, found an error, or has waited long enough. Partitions are
looked at in the order of the request until there are enough records. `min_bytes` is not waited for: what is
available is acquired at once. A fetch whose session has ended acquires nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headgate.core.share.fetching import DeliveredRecords, ShareFetchWish
from headgate.server.shares.partition import Portion, SharedPartition

MOST_BYTES: Final = 1 << 20
"""A response has no more bytes of records, but at least one batch."""

OnDelivered = Callable[[list[DeliveredRecords]], None]


class ShareFetch:
    """One fetch, from its arrival to its result."""

    def __init__(
        self, wish: ShareFetchWish, partitions: Sequence[SharedPartition], on_done: OnDelivered
    ) -> None:
        self._wish = wish
        self._partitions = partitions
        self._on_done = on_done
        self._cancel_timeout: Callable[[], None] | None = None
        self._is_waiting = False
        self._is_done = False

    def begin(self, call_later: Callable[[int, Callable[[], None]], Callable[[], None]]) -> None:
        """Answer now if there is something, else wait."""
        if self._wish.max_records <= 0 or not self._partitions:
            self._finish([])
        elif not self.look():
            if self._wish.max_wait_ms <= 0 and all(one.is_loaded for one in self._partitions):
                self._finish([])
                return
            self._is_waiting = True
            self._cancel_timeout = call_later(max(0, self._wish.max_wait_ms), self._time_out)
            for partition in self._partitions:
                partition.wait(self)

    def look(self) -> bool:
        """Acquire what there is, and answer if that is anything; return whether the fetch is answered."""
        if self._is_done:
            return True
        if self._wish.session.has_ended:
            self._finish([])
            return True
        found = self._acquire()
        if found:
            self._finish(found)
        return bool(found)

    def _acquire(self) -> list[DeliveredRecords]:
        wish = self._wish
        found: list[DeliveredRecords] = []
        records_left, bytes_left = wish.max_records, min(wish.max_bytes, MOST_BYTES)
        for partition in self._partitions:
            portion = Portion(wish.session.member_id, bytes_left, records_left, wish.batch_size, wish.mode)
            delivered = partition.fetch(portion)
            if delivered is None:
                continue
            found.append(delivered)
            records_left -= delivered.record_count
            bytes_left -= len(delivered.records)
            if records_left <= 0 or bytes_left <= 0:
                break
        return found

    def _time_out(self) -> None:
        self._finish([])

    def cancel(self) -> None:
        """Give the fetch up: its connection is lost."""
        self._is_done = True
        self._leave()

    def _finish(self, found: list[DeliveredRecords]) -> None:
        self._is_done = True
        self._leave()
        self._on_done(found)

    def _leave(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            for partition in self._partitions:
                partition.leave(self)
        if self._cancel_timeout is not None:
            self._cancel_timeout()
            self._cancel_timeout = None

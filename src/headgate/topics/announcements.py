"""What the readers of one partition were last notified of: the high watermark and the last stable offset.

A reader that waits for committed records is counted the bytes up to the last stable offset. While a
transaction holds this offset back, the sizes of the appends after it are not kept: when it moves, these
readers are woken and look themselves.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.topics.shared import Shared
    from headgate.topics.waiters import PartitionKey


class Announcements:
    """The offsets that the waiting readers of one partition know."""

    __slots__ = ("_key", "_shared", "_stable", "_unannounced", "_visible")

    def __init__(self, shared: Shared, key: PartitionKey) -> None:
        self._shared = shared
        self._key = key
        self._visible = 0
        self._stable = 0
        self._unannounced: deque[tuple[int, int]] = deque()
        """The appends after the high watermark: end offset and size in bytes of each write."""

    def begin(self, high_watermark: int, last_stable_offset: int) -> None:
        """Begin with the offsets of a log that was opened."""
        self._visible, self._stable = high_watermark, last_stable_offset

    def appended(self, end_offset: int, size: int) -> None:
        """Note a write of `size` bytes, after which the log ends at `end_offset`."""
        self._unannounced.append((end_offset, size))

    def truncated(self, end_offset: int) -> None:
        """Note that the log was truncated."""
        self._visible = min(self._visible, end_offset)
        self._stable = min(self._stable, end_offset)
        self._unannounced.clear()

    def advance(self, high_watermark: int, last_stable_offset: int) -> None:
        """Notify the waiting readers of what became visible."""
        new_bytes, is_all_stable = 0, False
        if high_watermark > self._visible:
            is_all_stable = self._stable == self._visible and last_stable_offset == high_watermark
            self._visible = high_watermark
            unannounced = self._unannounced
            while unannounced and unannounced[0][0] <= high_watermark:
                new_bytes += unannounced.popleft()[1]
            self._shared.waiters.notify(self._key, max(new_bytes, 1))
        if last_stable_offset > self._stable:
            self._stable = last_stable_offset
            if is_all_stable:
                self._shared.committed_waiters.notify(self._key, max(new_bytes, 1))
            else:
                self._shared.committed_waiters.wake_all(self._key)

    def wake_all(self) -> None:
        """Wake all waiting readers, for a change other than new records."""
        self._shared.waiters.wake_all(self._key)
        self._shared.committed_waiters.wake_all(self._key)

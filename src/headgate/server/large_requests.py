"""The limit on large requests that are decoded and handled at a time.

A decoded request may take twenty times its bytes in memory, and its response as much again. So requests that
are decoded in threads are admitted by their bytes: several small ones together, or one very large one alone.
The others wait undecoded, in the order of their arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MOST_BYTES = 16 << 20
"""Bytes of admitted requests together; a larger request is admitted alone."""


class LargeRequests:
    """The large requests of all connections, from the decoding to the end of their handling."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._inside_bytes = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_letting_in = False

    def enter(self, size_bytes: int, go_on: Callable[[], None]) -> None:
        """Call `go_on` now or when there is room. The caller calls `leave` when its work is done."""
        self._waiting.append((size_bytes, go_on))
        self._let_in()

    def leave(self, size_bytes: int) -> None:
        """Release the admission of a request of this size."""
        self._inside_bytes -= size_bytes
        self._let_in()

    def _let_in(self) -> None:
        """Admit the requests there is room for. A request that leaves at once does not recurse."""
        if self._is_letting_in:
            return
        self._is_letting_in = True
        try:
            while self._waiting:
                size_bytes, go_on = self._waiting[0]
                if self._inside_bytes and self._inside_bytes + size_bytes > self._most_bytes:
                    return
                self._waiting.popleft()
                self._inside_bytes += size_bytes
                go_on()
        finally:
            self._is_letting_in = False

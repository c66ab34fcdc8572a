"""How many large requests are read and worked on at a time.

A request may take twenty times its bytes once it is read, and its answer as much again. So those that are
read in threads are let in by their bytes: some small ones together, or a very large one alone. The others
wait as they came, in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MOST_BYTES = 16 << 20
"""Of requests together; a larger one is let in alone."""


class LargeRequests:
    """The large requests of all connections, from their reading to the end of their work."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._inside_bytes = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_letting_in = False

    def enter(self, size_bytes: int, go_on: Callable[[], None]) -> None:
        """Call `go_on`, now or when there is room; whoever it is calls `leave` when its work is over."""
        self._waiting.append((size_bytes, go_on))
        self._let_in()

    def leave(self, size_bytes: int) -> None:
        """The work of a request of this size is over."""
        self._inside_bytes -= size_bytes
        self._let_in()

    def _let_in(self) -> None:
        """Let in those there is room for. One that leaves at once does not call itself deeper."""
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

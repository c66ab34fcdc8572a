"""A state log that passes all on to another, notes the bytes of each write, and can refuse writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.runtime.state_log import StateLog

OWN = frozenset({"inner", "written", "failure"})


class WatchedLog:
    """Reads and sets the attributes of `inner`. A test cannot replace the methods of a compiled log."""

    def __init__(self, inner: StateLog) -> None:
        self.inner = inner
        self.written: list[int] = []
        """Bytes of each write."""
        self.failure: Exception | None = None
        """Raised by each write, if any."""

    def append(self, batches: Sequence[bytearray]) -> int:
        """Write as the inner log does, unless there is a failure."""
        if self.failure is not None:
            raise self.failure
        self.written.append(sum(map(len, batches)))
        return self.inner.append(batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner, name, value)

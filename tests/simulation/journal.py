"""The events of a simulation: their counts, their order, and the first violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import sha256

from tests.simulation.clock import SimulatedTime
from tests.simulation.requests import Violation


class Journal:
    """The journal of one seed."""

    def __init__(self, time: SimulatedTime) -> None:
        self.counts: Counter[str] = Counter()
        self.violation: str | None = None
        self.on_violation: Callable[[], None] = lambda: None
        self._time = time
        self._trace = sha256()

    def trace(self, line: str) -> None:
        """Add a line to the hash that compares two runs."""
        self._trace.update(f"{self._time.seconds!r} {line}\n".encode("utf-8", "surrogatepass"))

    def trace_hash(self) -> str:
        """Return the hash of all lines so far."""
        return self._trace.hexdigest()

    def report(self, violation: str) -> None:
        """Report a violation: the first one is kept."""
        if self.violation is None:
            self.violation = f"at {self._time.seconds:.6f} s: {violation}"
        self.on_violation()

    def judged(self, check: Callable[[], None]) -> None:
        """Run a check and report its violation."""
        try:
            check()
        except Violation as violation:
            self.report(str(violation))

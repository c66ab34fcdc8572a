"""What happened in a simulation: how often what, in which order, and the first promise that was broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import sha256

from tests.simulation.clock import SimulatedTime
from tests.simulation.requests import Violation


class Journal:
    """The record of one seed."""

    def __init__(self, time: SimulatedTime) -> None:
        self.counts: Counter[str] = Counter()
        self.violation: str | None = None
        self.on_violation: Callable[[], None] = lambda: None
        self._time = time
        self._trace = sha256()

    def trace(self, line: str) -> None:
        """Take a line into the hash that tells two runs apart."""
        self._trace.update(f"{self._time.seconds!r} {line}\n".encode("utf-8", "surrogatepass"))

    def trace_hash(self) -> str:
        """The hash of all lines so far."""
        return self._trace.hexdigest()

    def report(self, violation: str) -> None:
        """A promise was broken: the first one counts."""
        if self.violation is None:
            self.violation = f"at {self._time.seconds:.6f} s: {violation}"
        self.on_violation()

    def judged(self, check: Callable[[], None]) -> None:
        """Report what a check finds."""
        try:
            check()
        except Violation as violation:
            self.report(str(violation))

"""What one measurement gives, and the table of all."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: what, rows, and seconds; or bytes of memory; or a number of connections.

    `cpu_seconds` is the processor time of this process, without Spark's: on a busy machine it tells more.
    """

    what: str
    rows: int
    seconds: float = 0
    memory_bytes: int | None = None
    cpu_seconds: float = 0
    connections: int | None = None

    def cells(self) -> tuple[str, str, str, str]:
        """Return the row of the printed table."""
        if self.memory_bytes is not None:
            return self.what, "", f"{self.memory_bytes / (1 << 20):.0f} MiB", ""
        if self.connections is not None:
            return self.what, "", f"{self.connections} connections", ""
        rate = f"{self.rows / self.seconds / 1e6:.3g}"
        return self.what, f"{self.seconds:.2f}", rate, f"{self.cpu_seconds:.2f}"


def timed(what: str, work: Callable[[], int]) -> Figure:
    """Do the work, which returns its number of rows."""
    begin, cpu = time.perf_counter(), time.process_time()
    rows = work()
    return Figure(what, rows, time.perf_counter() - begin, cpu_seconds=time.process_time() - cpu)


def table_of(figures: Iterable[Figure]) -> Table:
    """Return the printed table."""
    shown = Table("", "s", "M rows/s", "CPU s here")
    for figure in figures:
        shown.add_row(*figure.cells())
    return shown


def peak_bytes() -> int:
    """Return the largest memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

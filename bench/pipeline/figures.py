"""What one measurement gives, and the table of all."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: what, rows, and seconds; or bytes of memory; or a number of connections.

    `cpu_seconds` is the processor time of this process and all below it, so of Spark's JVM and workers.
    It tells more than the seconds on a busy machine.
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
    """Do the work, which returns its number of rows, with the processor time of all processes."""
    return _timed(what, work, processor_s)


def timed_here(what: str, work: Callable[[], int]) -> Figure:
    """Do work that needs this process alone.

    What `processor_s` tells falls when workers of Spark end meanwhile, of an earlier measurement.
    """
    return _timed(what, work, time.process_time)


def _timed(what: str, work: Callable[[], int], clock: Callable[[], float]) -> Figure:
    begin, cpu = time.perf_counter(), clock()
    rows = work()
    return Figure(what, rows, time.perf_counter() - begin, cpu_seconds=clock() - cpu)


def processor_s() -> float:
    """Return the processor time of this process and all below it so far, in s.

    It is that of this process alone where there is no /proc.
    """
    if not Path("/proc/self/stat").exists():
        return time.process_time()
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name in brackets, which may have any characters; fields 4 and 14 to 17.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        ticks[number] = sum(map(int, fields[11:15]))
    total, found = 0, [os.getpid()]
    while found:
        number = found.pop()
        total += ticks.get(number, 0)
        found += children.get(number, [])
    return total / os.sysconf("SC_CLK_TCK")


def table_of(figures: Iterable[Figure]) -> Table:
    """Return the printed table."""
    shown = Table("", "s", "M rows/s", "CPU s")
    for figure in figures:
        shown.add_row(*figure.cells())
    return shown


def peak_bytes() -> int:
    """Return the largest memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

"""Share a read out among tasks.

A piece is what one task can read by itself: a segment file, or a run of offsets of one partition. A task
costs 50 to 150 ms before its first row, so there is about one for each core, with many pieces in each.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql.datasource import InputPartition

from headgate.spark.scan import Scan


class Piece(Protocol):
    """A part of a partition's log that is read from its beginning to its end."""

    @property
    def partition(self) -> int:
        """The partition it belongs to."""
        ...

    @property
    def start_offset(self) -> int:
        """The first offset wanted of it."""
        ...

    @property
    def weight(self) -> int:
        """What it costs to read, in bytes or in offsets: the same unit for all pieces of a read."""
        ...

    def scans(self) -> Iterator[Scan]:
        """Read it, chunk by chunk."""
        ...


@dataclass(frozen=True)
class Task(InputPartition):
    """The pieces that one task of a Spark job reads, in order."""

    pieces: tuple[Piece, ...]


def share_out(pieces: Sequence[Piece], task_count: int) -> list[Task]:
    """Spread pieces over at most `task_count` tasks, the heaviest first, each to the task with the least so
    far.

    There is always one task: Spark would otherwise make up one of its own.
    """
    loads: list[tuple[int, int]] = [(0, task) for task in range(max(1, min(task_count, len(pieces))))]
    shares: list[list[Piece]] = [[] for _ in loads]
    for piece in sorted(pieces, key=lambda piece: piece.weight, reverse=True):
        load, task = loads[0]
        shares[task].append(piece)
        heapq.heapreplace(loads, (load + piece.weight, task))
    for share in shares:
        share.sort(key=lambda piece: (piece.partition, piece.start_offset))
    return [Task(tuple(share)) for share in shares]

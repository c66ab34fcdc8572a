"""Share a read out among tasks.

A piece is what one task can read by itself: a part of a segment file, or a run of offsets of one partition. A
task costs 50 to 150 ms before its first row, so there is about one for each core, with many pieces in each.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pyspark.sql.datasource import InputPartition

from headgate.domain.ids import TopicPartition
from headgate.log.batch_scan import Scan


class MissingData(LookupError):
    """What was to be read is not there: no such directory, topic, or offsets."""


class Piece(Protocol):
    """A part of a partition's log that is read from its beginning to its end."""

    @property
    def where(self) -> TopicPartition:
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


@dataclass(frozen=True)
class Task(InputPartition):
    """What one task of a Spark job reads. This one reads nothing: Spark wants at least one task."""

    value: None = field(default=None, init=False)

    def scans(self) -> Iterator[tuple[TopicPartition, Scan]]:
        """Read all of it, chunk by chunk, each with the partition it belongs to."""
        return iter(())

    def scans_at(self, where: TopicPartition, offset: int) -> Iterator[Scan]:
        """Read the record at an offset that another task may read, if the plan covers it."""
        return iter(())


PieceT = TypeVar("PieceT", bound=Piece)


def share_out(pieces: Sequence[PieceT], task_count: int) -> list[tuple[PieceT, ...]]:
    """Spread pieces over at most `task_count` tasks, the heaviest first, each to the task with the least so
    far; within a task they are in order.
    """
    loads: list[tuple[int, int]] = [(0, task) for task in range(min(task_count, len(pieces)))]
    shares: list[list[PieceT]] = [[] for _ in loads]
    for piece in sorted(pieces, key=lambda piece: piece.weight, reverse=True):
        load, task = loads[0]
        shares[task].append(piece)
        heapq.heapreplace(loads, (load + piece.weight, task))
    for share in shares:
        share.sort(key=lambda piece: (piece.where, piece.start_offset))
    return [tuple(share) for share in shares]

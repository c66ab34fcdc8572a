"""Divide a read among tasks.

A piece is read by one task: a part of a segment file, or a range of offsets of one partition. A task takes 50
to 150 ms before its first row, so there is about one for each core, with many pieces in each.
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
    """The directory, topic, or offsets to read do not exist."""


class Piece(Protocol):
    """A part of a partition's log that is read from its start to its end."""

    @property
    def where(self) -> TopicPartition:
        """Return the partition of the piece."""
        ...

    @property
    def start_offset(self) -> int:
        """Return the first wanted offset of the piece."""
        ...

    @property
    def weight(self) -> int:
        """Return the cost of the piece, in bytes or in offsets: the same unit for all pieces of a read."""
        ...


@dataclass(frozen=True)
class Task(InputPartition):
    """The work of one task of a Spark job. This one reads nothing: Spark needs at least one task."""

    value: None = field(default=None, init=False)

    def scans(self) -> Iterator[tuple[TopicPartition, Scan]]:
        """Read all pieces, chunk by chunk, each chunk with its partition."""
        return iter(())

    def scans_at(self, where: TopicPartition, offset: int) -> Iterator[Scan]:
        """Read the record at an offset that another task may read, if the plan includes it."""
        return iter(())


PieceT = TypeVar("PieceT", bound=Piece)


def share_out(pieces: Sequence[PieceT], task_count: int) -> list[tuple[PieceT, ...]]:
    """Divide pieces among at most `task_count` tasks, the heaviest first, each to the task with the least
    weight so far; the pieces of a task are in order.
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

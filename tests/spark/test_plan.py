"""Pieces are divided evenly among about as many tasks as there are cores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.spark.support import numbered, write_segment

from headgate.domain.ids import TopicName, TopicPartition
from headgate.spark import segments
from headgate.spark.options import parse
from headgate.spark.plan import share_out


@dataclass(frozen=True)
class Weight:
    """A piece with only a weight."""

    where: TopicPartition
    weight: int
    start_offset: int = 0


def piece(partition: int, weight: int, start_offset: int = 0) -> Weight:
    """Return a piece of a partition."""
    return Weight(TopicPartition(TopicName("t"), partition), weight, start_offset)


def test_the_heaviest_task_is_not_much_heavier_than_the_lightest() -> None:
    """The heaviest pieces are distributed first."""
    tasks = share_out([piece(number, weight) for number, weight in enumerate([9, 1, 1, 1, 5, 3, 4, 4])], 3)
    loads = sorted(sum(piece.weight for piece in task) for task in tasks)
    assert loads == [9, 9, 10]


def test_each_task_reads_in_order_of_partition_and_offset() -> None:
    """A file is followed by the next one of the same partition."""
    (task,) = share_out([piece(1, 5), piece(0, 1, 7), piece(0, 9, 3)], 1)
    assert [(piece.where.partition, piece.start_offset) for piece in task] == [(0, 3), (0, 7), (1, 0)]


def test_there_are_never_more_tasks_than_pieces() -> None:
    """There are none if there is nothing to read."""
    assert len(share_out([piece(0, 1), piece(1, 1)], 8)) == 2
    assert share_out([], 8) == []


def test_there_is_always_a_task(tmp_path: Path) -> None:
    """Spark replaces an empty list of tasks by a task of its own type."""
    (tmp_path / "t-0").mkdir()
    (task,) = segments.plan(parse({"path": str(tmp_path), "topic": "t"}))
    assert list(task.scans()) == []


def test_more_tasks_are_made_where_one_would_read_too_much(tmp_path: Path) -> None:
    """maxBytesPerTask makes more tasks than cores for large data."""
    for partition in range(6):
        write_segment(tmp_path, "t", partition, [numbered(100)])
    size = len(numbered(100))
    given = {"path": str(tmp_path), "topic": "t", "minPartitions": "2"}
    assert len(segments.plan(parse(given))) == 2
    assert len(segments.plan(parse(given | {"maxBytesPerTask": str(2 * size)}))) == 3
    assert len(segments.plan(parse(given | {"maxBytesPerTask": "1"}))) == 6

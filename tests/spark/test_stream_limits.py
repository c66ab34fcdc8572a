"""How a limit of a batch is divided among partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.ids import TopicName, TopicPartition
from headgate.spark.stream.limits import limited

PARTITIONS = [TopicPartition(TopicName("t"), each) for each in range(5)]
LOGS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5)


@given(LOGS, st.none() | st.integers(1, 120))
def test_a_limit_is_used_up_and_not_passed(logs: list[tuple[int, int]], most: int | None) -> None:
    """As far as there is something to read; a start behind the end reads nothing."""
    starts = {where: start for where, (start, _) in zip(PARTITIONS, logs, strict=False)}
    ends = {where: end for where, (_, end) in zip(PARTITIONS, logs, strict=False)}
    reached = limited(starts, ends, most)
    total = sum(max(ends[where] - starts[where], 0) for where in starts)
    expected = total if most is None else min(total, most)
    assert sum(reached[where] - starts[where] for where in starts) == expected
    assert all(starts[where] <= reached[where] <= max(ends[where], starts[where]) for where in starts)


@given(LOGS, st.integers(1, 7))
def test_no_partition_waits_for_others(logs: list[tuple[int, int]], most: int) -> None:
    """Also if producers add to the others as much as is read: each advances within one round of turns."""
    starts = {where: start for where, (start, _) in zip(PARTITIONS, logs, strict=False)}
    counts = {where: 1 + count for where, (_, count) in zip(PARTITIONS, logs, strict=False)}
    first = dict(starts)
    for _ in starts:
        starts = limited(starts, {where: starts[where] + counts[where] for where in starts}, most)
    assert all(starts[where] > first[where] for where in starts)

"""The rules of resets, as a table."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headgate.admin import (
    ByDuration,
    CommittedOffset,
    NothingToReset,
    ShiftBy,
    Target,
    ToCurrent,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    TopicPartition,
)
from headgate.admin.reset import plan
from headgate.client.cluster import EARLIEST, LATEST, NO_OFFSET
from headgate.domain.ids import Millis, TopicName

A, B = (TopicPartition(TopicName("flights"), index) for index in range(2))
NOW = Millis(100_000)
COMMITTED = {A: CommittedOffset(50)}
# A has offsets 10 to 90, B has offsets 0 to 20. Record n has the timestamp 1000 n.
LOGS = {A: (10, 90), B: (0, 20)}


def offsets_at(timestamp: int) -> Mapping[TopicPartition, int]:
    """Return what ListOffsets returns for the two logs."""
    if timestamp == EARLIEST:
        return {partition: start for partition, (start, _) in LOGS.items()}
    if timestamp == LATEST:
        return {partition: end for partition, (_, end) in LOGS.items()}
    assert timestamp >= 0
    found = -(-timestamp // 1000)
    return {
        partition: max(start, found) if found < end else NO_OFFSET for partition, (start, end) in LOGS.items()
    }


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (ToEarliest(), [10, 0]),
        (ToLatest(), [90, 20]),
        (ToCurrent(), [50, 20]),
        (ToOffset(15), [15, 15]),
        (ToOffset(5), [10, 5]),
        (ToOffset(1000), [90, 20]),
        (ToOffsets({A: 11, B: 21}), [11, 20]),
        (ToDatetime(Millis(12_500)), [13, 13]),
        (ToDatetime(Millis(30_000)), [30, 20]),
        (ToDatetime(Millis(-5)), [10, 0]),
        (ByDuration(85_000), [15, 15]),
        (ByDuration(10**9), [10, 0]),
    ],
    ids=str,
)
def test_each_target_has_the_result_of_kafkas_tool(target: Target, offsets: list[int]) -> None:
    """The result is always inside of the log. A time after the last record means the end of the log."""
    assert [each.offset for each in plan(target, [B, A], COMMITTED, offsets_at, NOW)] == offsets


def test_an_offset_that_was_moved_into_the_log_is_reported() -> None:
    """`asked_for` is the requested offset."""
    first, second = plan(ToOffset(5), [A, B], COMMITTED, offsets_at, NOW)
    assert (first.offset, first.asked_for, first.committed) == (10, 5, CommittedOffset(50))
    assert (second.offset, second.asked_for, second.committed) == (5, 5, None)


def test_what_no_partition_can_be_reset_to_is_refused() -> None:
    """A duration into the future, which would be the end of each log; a list without the partition."""
    with pytest.raises(ValueError, match="duration_ms must be 0 or more, not -1"):
        ByDuration(-1)
    with pytest.raises(NothingToReset, match="ToOffsets has no offset for flights-1"):
        plan(ToOffsets({A: 5}), [A, B], COMMITTED, offsets_at, NOW)


def test_a_shift_needs_a_committed_offset() -> None:
    """A shift moves the committed offset forward or back. A partition without one is named in the error."""
    assert [each.offset for each in plan(ShiftBy(-3), [A], COMMITTED, offsets_at, NOW)] == [47]
    with pytest.raises(NothingToReset, match="flights-1"):
        plan(ShiftBy(1), [A, B], COMMITTED, offsets_at, NOW)

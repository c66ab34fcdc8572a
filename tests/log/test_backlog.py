"""The backlog of a log: the segments that are due for compaction, and their size."""

from __future__ import annotations

from tests.log.support import Place, append, filled

from headgate.log.backlog import SPARE_SEGMENTS, Backlog, backlog_of


def test_the_backlog_starts_at_the_first_uncompacted_segment(place: Place) -> None:
    """It ends at an offset, and before the first segment with a record younger than a time."""
    log, _ = filled(place, 50)
    first, second, third, *_ = log.segments.closed
    sizes = [segment.size for segment in log.segments.closed]
    assert len(sizes) == 4
    ends = [segment.next_offset for segment in log.segments.closed]
    assert backlog_of(log, 50) == Backlog(sum(sizes), 0, ends[3], first)
    assert backlog_of(log, ends[1]) == Backlog(sum(sizes[:2]), 0, ends[1], first)
    assert backlog_of(log, ends[1] - 1) == Backlog(sizes[0], 0, ends[0], first)
    assert backlog_of(log, 0) == Backlog(0, 0, 0, None)
    newest = second.max_timestamp
    assert backlog_of(log, 50, newest) == Backlog(sum(sizes[:2]), 0, ends[1], first)
    assert backlog_of(log, 50, newest - 1) == Backlog(sizes[0], 0, ends[0], first)
    log.compacted_to = second.base_offset
    assert backlog_of(log, 50) == Backlog(sum(sizes[1:]), sizes[0], ends[3], second)
    log.compacted_to = third.base_offset + 1
    assert backlog_of(log, 50) == Backlog(sizes[3], sum(sizes[:3]), ends[3], log.segments.closed[3])
    log.compacted_to = ends[3]
    waiting = backlog_of(log, 50)
    assert waiting == Backlog(0, sum(sizes), ends[3], None)
    assert (waiting.oldest_timestamp_ms, waiting.dirty_ratio, waiting.pressure(1000)) == (-1, 0, 0)
    log.compacted_to = 0
    log.delete_before(ends[0] + 1)
    assert backlog_of(log, 0).end_offset == ends[0] + 1


def test_dirty_ratio_and_pressure() -> None:
    """The ratio is Kafka's; the pressure is relative to the size that a log may have."""
    waiting = Backlog(300, 100, 7, None)
    assert waiting.dirty_ratio == 0.75
    assert waiting.pressure(5) == 300 / (100 + SPARE_SEGMENTS * 5)
    assert Backlog(0, 100, 7, None).dirty_ratio == 0.0
    assert Backlog(1, 0, 7, None).dirty_ratio == 1.0


def test_the_age_of_a_backlog_is_that_of_its_first_batch(place: Place) -> None:
    """By the maximum timestamp of the batch."""
    log = place.open()
    append(log, 3, timestamp=5000)
    for _ in range(20):
        append(log, timestamp=9000)
    assert backlog_of(log, 99).oldest_timestamp_ms == 5002

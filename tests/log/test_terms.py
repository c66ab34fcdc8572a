"""The size of segments, and preallocation after their end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.log.support import Place, append, batch_at, filled

from headgate.log.batch import read_header
from headgate.log.log import Log, LogSettings
from headgate.log.segment_indexes import LARGEST_RELATIVE_OFFSET

SETTINGS = LogSettings(segment_bytes=1000, segment_ms=100)


def is_full(log: Log, settings: LogSettings, size: int = 1, time: int = 0, last_offset: int = 0) -> bool:
    """Whether the active segment has no place for such batches."""
    assert log.segments.active is not None
    header = read_header(batch_at(0))
    return settings.is_full(
        log.segments.active,
        size,
        header._replace(max_timestamp=time),
        header._replace(base_offset=last_offset, last_offset_delta=0),
    )


def test_the_limits_of_a_segment(place: Place) -> None:
    """Bytes, time span, and offsets of four bytes."""
    log = place.open()
    append(log, timestamp=50)
    left = 1000 - log.size_bytes
    assert [is_full(log, SETTINGS, size) for size in (left, left + 1)] == [False, True]
    assert [is_full(log, SETTINGS, time=time) for time in (0, 150, 151)] == [False, False, True]
    last = LARGEST_RELATIVE_OFFSET
    assert [is_full(log, SETTINGS, last_offset=offset) for offset in (last, last + 1)] == [False, True]
    assert not is_full(log, replace(SETTINGS, segment_ms=101), time=151)


def test_offsets_are_relative_to_the_segments_base_offset(place: Place) -> None:
    """In four bytes."""
    log, _ = filled(place, 15)
    base = log.segments.closed[0].next_offset
    assert [is_full(log, SETTINGS, last_offset=base + LARGEST_RELATIVE_OFFSET + one) for one in (0, 1)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(("first", "is_counted"), [(-1, False), (0, True)])
def test_a_segment_without_a_first_timestamp_has_no_time_span(
    place: Place, first: int, is_counted: bool
) -> None:
    """-1 is none, and 0 is one."""
    log = place.open()
    append(log, timestamp=first)
    assert is_full(log, SETTINGS, time=10**9) is is_counted


@pytest.mark.parametrize(
    ("end", "room"), [(0, 0), (99, 0), (100, 100), (299, 299), (300, 300), (301, 300), (5000, 300)]
)
def test_preallocation_equals_the_size_up_to_a_limit(end: int, room: int) -> None:
    """Small segments have none; a reserved segment has its full size."""
    settings = LogSettings(segment_bytes=1000, room_bytes=300, room_after_bytes=100)
    assert settings.room_for(end) == room
    assert replace(settings, reserves_segments=True).room_for(end) == max(1000 - end, 0)


def test_has_room() -> None:
    """One byte of it is enough."""
    assert not LogSettings().has_room
    assert LogSettings(room_bytes=1).has_room
    assert LogSettings(reserves_segments=True).has_room


def test_jitter_is_less_than_its_setting_and_the_time_span(place: Place) -> None:
    """With 1 ms for either it is 0."""
    log = place.open()
    append(log)
    segment = log.segments.active
    assert segment is not None
    for jitter_ms, span_ms, most in ((0, 100, 0), (1, 100, 0), (100, 1, 0), (7, 100, 6), (100, 7, 6)):
        settings = LogSettings(segment_ms=span_ms, segment_jitter_ms=jitter_ms)
        assert 0 <= settings._jitter_ms(segment) <= most
    assert LogSettings(segment_jitter_ms=1000)._jitter_ms(segment) > 0

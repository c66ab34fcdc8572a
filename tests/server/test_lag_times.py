"""Lag in seconds, from the ends of logs at past times."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.core.offsets.lags import UNKNOWN, TopicEnds
from headgate.domain.ids import Millis, TopicName
from headgate.server.lag_times import LagTimes

T = TopicName("t")
MOST = 100
HOUR_MS = 3_600_000


def ends(*of_partitions: int) -> dict[TopicName, TopicEnds]:
    return {T: TopicEnds(np.zeros(len(of_partitions), np.int64), np.array(of_partitions, np.int64))}


def times(*notes: tuple[int, int]) -> LagTimes:
    """Notes of a log with one partition: time in ms, and its end then."""
    found = LagTimes()
    for at, end in notes:
        found.note(Millis(at), ends(end), MOST)
    return found


def test_a_record_is_as_old_as_the_growth_of_its_log_says() -> None:
    """The log grew by 100 records between 10 s and 20 s: record 150 came in the middle."""
    found = times((10_000, 100), (20_000, 200), (30_000, 200))
    assert found.age_ms(T, 0, 150, Millis(30_000)) == 15_000
    assert found.age_ms(T, 0, 100, Millis(30_000)) == 20_000
    assert found.age_ms(T, 0, 199, Millis(30_000)) == 10_100


def test_a_record_from_before_the_first_note_has_been_there_since_then_at_least() -> None:
    """Its age is not 0, and grows."""
    found = times((10_000, 100), (20_000, 100))
    assert found.age_ms(T, 0, 40, Millis(20_000)) == 10_000
    assert found.age_ms(T, 0, 40, Millis(25_000)) == 15_000


def test_an_end_that_was_unknown_ends_the_search() -> None:
    """A log that was opened later has been there since its first known end at least."""
    found = times((10_000, UNKNOWN), (20_000, 100), (30_000, 100))
    assert found.age_ms(T, 0, 40, Millis(30_000)) == 10_000


def test_a_log_that_was_not_open_at_a_scrape_keeps_its_age() -> None:
    """It is closed for a while if nobody uses it, or if descriptors are short; its past is known."""
    found = times((0, 100), (60_000, 200), (120_000, UNKNOWN), (180_000, 200), (240_000, UNKNOWN))
    assert found.age_ms(T, 0, 150, Millis(240_000)) == 210_000
    assert found.age_ms(T, 0, 199, Millis(240_000)) == 180_600


@pytest.mark.parametrize("first", [UNKNOWN, 100])
def test_an_age_grows_as_long_as_nothing_is_read(first: int) -> None:
    """Whatever is forgotten meanwhile, and whether the log was open at the first note."""
    found = LagTimes()
    found.note(Millis(0), ends(first), MOST)
    begin = 10_000 if first == UNKNOWN else 0
    for at in range(10_000, 10 * 24 * HOUR_MS, 600_000):
        found.note(Millis(at), ends(100), MOST)
        assert found.age_ms(T, 0, 40, Millis(at)) == at - begin


def test_a_topic_that_was_made_anew_has_no_age_from_before() -> None:
    """Its log ends below where that of its name ended."""
    found = times((0, 500), (60_000, 500), (120_000, 10), (180_000, 20))
    assert found.age_ms(T, 0, 5, Millis(180_000)) == 60_000
    found.note(Millis(240_000), ends(20), MOST)
    assert found.age_ms(T, 0, 15, Millis(240_000)) == 90_000
    found.note(Millis(300_000), {}, MOST)
    found.note(Millis(360_000), ends(20), MOST)
    assert found.age_ms(T, 0, 5, Millis(360_000)) == 0


def test_a_partition_that_was_added_later_is_found() -> None:
    """Notes before it do not have it."""
    found = LagTimes()
    found.note(Millis(10_000), ends(5), MOST)
    found.note(Millis(20_000), ends(5, 0), MOST)
    found.note(Millis(30_000), ends(5, 10), MOST)
    assert found.age_ms(T, 1, 5, Millis(30_000)) == 5_000


@pytest.mark.parametrize("every_ms", [1_000, 15_000, 60_000])
def test_few_notes_last_for_days(every_ms: int) -> None:
    """Their error is at most a quarter of the age, and one distance."""
    found = LagTimes()
    last = 24 * HOUR_MS
    for at in range(0, last + 1, every_ms):
        found.note(Millis(at), ends(at), MOST)  # one record in a millisecond
    assert len(found) < 60
    for age in (0, 20_000, HOUR_MS, 12 * HOUR_MS):
        error = abs(found.age_ms(T, 0, last - age - 1, Millis(last)) - age)
        assert error <= age / 4 + 2 * every_ms


def test_too_many_partitions_are_not_noted() -> None:
    """Then nothing is remembered: old notes would make new records old."""
    found = times((10_000, 100))
    found.note(Millis(20_000), ends(*[1] * (MOST + 1)), MOST)
    assert len(found) == 0

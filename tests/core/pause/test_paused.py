"""The changes of paused partitions, as values."""

from __future__ import annotations

from typing import Any

from tests.core.counted import Index

from headgate.core.pause.dispatch import MOST_RECORD_BYTES
from headgate.core.pause.paused import record_of, with_paused, without
from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.records import Pause, PausedPartitions, encode

TOPIC = TopicId(b"0123456789abcdef")
COUNT = 300


def test_the_work_grows_with_the_partitions_also_if_each_names_its_topic() -> None:
    """A request that names a topic thousands of times does not stop the server."""
    partitions: list[Any] = [(TOPIC, [Index(number)]) for number in range(COUNT)]
    Index.looks = 0
    paused = with_paused({}, partitions, Pause())
    assert paused == {TOPIC: dict.fromkeys(range(COUNT), Pause())}
    assert with_paused(paused, [*partitions, (TOPIC, [COUNT])], Pause())[TOPIC].keys() == {*range(COUNT + 1)}
    assert without(paused, partitions) == {}
    assert Index.looks < 30 * COUNT


def test_a_pause_takes_the_place_of_that_of_a_rewind_alone() -> None:
    """The rewind will resume what it paused; who pauses it meanwhile wants it to stay paused."""
    hands_off, rewind, again = (Pause(Millis(1), "a", reason) for reason in ("x", "rewind: y", "rewind"))
    for first, second, standing in (
        (hands_off, rewind, hands_off),
        (rewind, hands_off, hands_off),
        (rewind, again, rewind),
        (hands_off, Pause(Millis(2), "b", "z"), hands_off),
    ):
        paused = with_paused({TOPIC: {0: first}}, [(TOPIC, [0, 1])], second)
        assert paused == {TOPIC: {0: standing, 1: second}}


def test_a_rewind_resumes_only_what_rewinds_have_paused() -> None:
    """What somebody else pauses at the last moment stays paused."""
    before = with_paused({}, [(TOPIC, [0, 1])], Pause(Millis(1), "c", "rewind: again"))
    before = with_paused(before, [(TOPIC, [1])], Pause(Millis(2), "d", "hands off"))
    after = without(before, [(TOPIC, [0, 1, 2])], only_of_rewinds=True)
    assert {index: pause.reason for index, pause in after[TOPIC].items()} == {1: "hands off"}
    assert without(after, [(TOPIC, [1])], only_of_rewinds=True) is after
    assert without(after, [(TOPIC, [1])]) == {}


def test_a_record_that_a_resume_makes_larger_fits_into_a_batch() -> None:
    """The first pause has the number 0, which takes no bytes; a resume can give it to another pause."""
    first, second = Pause(Millis(1), "a", "first"), Pause(Millis(2), "a", "second")
    topics = [TopicId(number.to_bytes(16, "big")) for number in range(MOST_RECORD_BYTES // 22 - 10)]
    paused = {topic: {0: first} for topic in topics} | {topics[0]: {0: first, 1: second}}
    resumed = without(paused, [(topics[0], [0])])
    assert _size(paused) <= MOST_RECORD_BYTES < _size(resumed) < 1_000_000


def _size(paused: PausedPartitions) -> int:
    _, value = encode(record_of(GroupId("g"), paused))
    assert value is not None
    return len(value)

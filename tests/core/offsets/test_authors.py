"""Authors of changes: which records they sign, for every way in which a change is recorded."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.core.offsets.authors import LONGEST_CLIENT_ID, Author, authors_of
from headgate.core.offsets.history import HistoryCollector, HistoryQuery, TopicLife
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.records import (
    Change,
    ChangeAuthor,
    ColumnBatch,
    ColumnShape,
    OffsetBatch,
    OffsetCommit,
    OffsetTombstone,
    RecordShape,
)
from headgate.records.columns import records_of
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows

GROUP, A, B = GroupId("g"), TopicName("a"), TopicName("b")
ME = Author("me", "/127.0.0.1")
NOW = Millis(1000)


def rows(*topics: tuple[TopicName, int]) -> OffsetRows:
    count = sum(number for _, number in topics)
    return OffsetRows(
        [key_prefix(GROUP, topic) for topic, _ in topics],
        np.repeat(np.arange(len(topics)), [number for _, number in topics]),
        np.concatenate([np.arange(number) for _, number in topics]),
        np.arange(count),
        np.zeros(count, np.int32),
        np.full(count, NOW),
        np.zeros(count, np.bool_),
        {},
    )


def columns(topic: TopicName, count: int) -> ColumnBatch:
    shape = ColumnShape(GROUP, topic, np.arange(count), np.zeros(count, np.int64), "")
    return ColumnBatch(shape, np.arange(count), NOW)


def batch(*places: tuple[TopicName, int]) -> OffsetBatch:
    return OffsetBatch([RecordShape(GROUP, *place, 0) for place in places], [5] * len(places), NOW)


CHANGES: dict[str, list[Change]] = {
    "singles": [OffsetTombstone(GROUP, A, 0), OffsetTombstone(GROUP, A, 1), OffsetTombstone(GROUP, B, 0)],
    "a batch": [batch((A, 0), (A, 1), (B, 4), (B, 5), (B, 6))],
    "columns": [columns(A, 20), columns(B, 16)],
    "rows": [rows((A, 3)), rows((B, 2))],
    "rows of two topics": [rows((A, 3), (B, 2))],
    "all of them": [batch((A, 0)), columns(A, 17), rows((B, 2)), OffsetTombstone(GROUP, B, 9)],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_every_record_of_a_change_is_signed_and_no_other(changes: list[Change]) -> None:
    """The collector of a history finds the author of exactly these, wherever they are in the log."""
    authors = authors_of(GROUP, changes, ME)
    assert [one.topic for one in authors] == [A, B]
    collector = HistoryCollector(HistoryQuery(GROUP, None, limit=100))
    changed = set()
    position = 40
    for change in [OffsetTombstone(GROUP, A, 99), *changes]:
        for record in records_of(change):
            assert isinstance(record, OffsetCommit | OffsetTombstone)
            changed.add((record.topic, record.partition))
            collector.take(position, NOW, record)
            position += 1
    for author in authors:
        collector.take_author(position, author)
        position += 1
    collector.take(position, NOW, OffsetCommit(GROUP, B, 98, 1, 0, "", NOW))
    collector.end_segment()
    life = TopicLife(TopicId(b"x" * 16))
    answer = collector.answer(Millis(2000), {A: life, B: life})
    signed = {
        (one.topic, one.partition): entry.author is not None
        for one in answer.partitions
        for entry in one.entries
    }
    assert {place for place, is_signed in signed.items() if is_signed} == changed - {(A, 99)}


def test_nobody_signs_nothing() -> None:
    """A change without an author, or without records."""
    assert authors_of(GROUP, [OffsetTombstone(GROUP, A, 0)], None) == ()
    assert not authors_of(GROUP, [], ME)


def test_a_long_client_id_is_cut() -> None:
    """A record must not be larger than the change."""
    (signed,) = authors_of(GROUP, [OffsetTombstone(GROUP, A, 0)], Author("x" * 40_000, "/1"))
    assert signed == ChangeAuthor(GROUP, A, 1, 1, "x" * LONGEST_CLIENT_ID, "/1")

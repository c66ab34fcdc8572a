"""Authors of changes go with the retention of the history; else the last one of each topic stays for ever."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.history.past import GROUP, START, TOPIC, Life, Past, SetClock
from tests.server.disk import new_disk

from headgate.core.offsets.authors import Author, authors_of
from headgate.core.offsets.history import HistoryQuery
from headgate.domain.ids import GroupId, Millis
from headgate.history.old_authors import OldAuthors
from headgate.log.batch import Record, encode_batch, iterate_records, read_header
from headgate.log.log import Log
from headgate.log.record_columns import read_columns
from headgate.records import ChangeAuthor, GroupTombstone, OffsetCommit, OffsetTombstone, decode, encode

DAY_MS = 24 * 3600 * 1000
RETENTION_DAYS = 7
ME = Author("admin", "/10.0.0.7")


def life_of(clock: SetClock, days: int = RETENTION_DAYS) -> Life:
    return Life(new_disk(), clock, offsets_history_retention_ms=str(days * DAY_MS if days > 0 else days))


def change(life: Life, past: Past, group: GroupId, offset: int) -> None:
    """Set an offset of a group as an administrator does."""
    commit = life.record(offset, 0, group)
    life.write([[commit, *authors_of(group, [commit], ME)]], past)


def fill(life: Life, past: Past) -> None:
    """Close the active segment with commits of a consumer."""
    for at in range(12):
        life.commit(at, range(3), past, GroupId("consumer"))


def authors_in(log: Log) -> list[ChangeAuthor]:
    found = [one for _, batch in log.batches(log.log_start_offset) for _, one in iterate_records(batch)]
    decoded = [decode(one.key, one.value) for one in found if one.key is not None and one.key[:2] != b"\xff"]
    return [one for one in decoded if isinstance(one, ChangeAuthor)]


@pytest.mark.parametrize(("days", "is_kept"), [(RETENTION_DAYS, False), (-1, True), (0, False)])
def test_the_last_author_of_a_topic_goes_after_the_retention(days: int, is_kept: bool) -> None:
    """The offset stays, as it is the current value; a change within the retention is still signed."""
    clock, past = SetClock(), Past()
    life = life_of(clock, days)
    change(life, past, GROUP, 5)
    fill(life, past)
    clock.time = Millis(START + (RETENTION_DAYS + 1) * DAY_MS)
    change(life, past, GroupId("later"), 6)
    clock.time = Millis(clock.time + 1)
    fill(life, past)
    assert life.compact()
    left = {one.group_id for one in authors_in(life.partition.log)}
    assert (GROUP in left) == is_kept
    assert (GroupId("later") in left) == (days != 0)
    if days > 0:
        assert GROUP not in {one.group_id for one in authors_in(life.moved.log)}, (
            "it would be kept there anew"
        )
    (partition,) = life.ask(HistoryQuery(GROUP, None, limit=10)).partitions
    (entry,) = partition.entries
    assert entry.commit is not None
    assert entry.commit.offset == 5
    assert (entry.author is not None) == is_kept
    life.end()


def test_the_log_does_not_grow_over_months_of_changes() -> None:
    """Administrators change and delete ever new groups; what is left of the authors is a week's."""
    chance, clock, past = Random(7), SetClock(), Past()
    life = life_of(clock)
    most_bytes = []
    for day in range(120):
        clock.time = Millis(START + day * DAY_MS)
        for number in range(4):
            group = GroupId(f"group-{day}-{number}")
            change(life, past, group, number)
            clock.time = Millis(clock.time + chance.randrange(DAY_MS // 8))
            gone = OffsetTombstone(group, TOPIC, 0)
            life.write([[gone, *authors_of(group, [gone], ME)], [GroupTombstone(group)]], past)
        fill(life, past)
        while life.compact():
            pass
        if day >= 2 * RETENTION_DAYS:
            most_bytes.append(sum(one.size for one in life.partition.log.segments))
    oldest = min(int(one.group_id.split("-")[1]) for one in authors_in(life.partition.log))
    assert oldest >= 119 - RETENTION_DAYS - 1
    assert max(most_bytes[-20:]) < 1.2 * max(most_bytes[:20])
    life.end()


keys = st.one_of(
    st.builds(lambda back: encode(ChangeAuthor(GROUP, TOPIC, back, 1, "me", "/h")), st.integers(1, 300)),
    st.builds(lambda at: encode(OffsetCommit(GROUP, TOPIC, at, 1, -1, "", Millis(5))), st.integers(0, 2000)),
    st.binary(max_size=3).map(lambda key: (key, b"value")),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(keys, st.integers(0, 9)), min_size=1, max_size=20), st.integers(0, 10))
def test_records_in_columns_are_judged_like_single_ones(
    found: list[tuple[tuple[bytes, bytes | None], int]], before: int
) -> None:
    """Whatever keys there are, of one byte and of none."""
    records = [Record(key, value, START + time) for (key, value), time in found]
    batch = encode_batch(records)
    columns = read_columns([(read_header(batch), batch)])
    assert columns is not None
    old = OldAuthors(Millis(START + before))
    assert old.has_any(columns) == any(map(old.has, records))

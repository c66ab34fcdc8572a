"""The lag of groups, computed for the whole table at once, compared with the definition."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.core.offsets.forecasts import end_of

from headgate.core.offsets import lags, scanning
from headgate.core.offsets.lags import UNKNOWN, GroupLag, PartitionLag, TopicEnds
from headgate.core.offsets.table import OffsetTable
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import OffsetCommit

FLIGHTS, GONE = TopicName("flights"), TopicName("gone")


def put(table: OffsetTable, group_id: str, topic: str, partition: int, offset: int) -> None:
    """Commit one offset."""
    table.put(
        OffsetCommit(GroupId(group_id), TopicName(topic), partition, offset, -1, "", Millis(1), Millis(-1))
    )


def ends(*rows: tuple[int, int]) -> TopicEnds:
    """The start and the end of each partition."""
    return TopicEnds(
        np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64)
    )


@pytest.mark.parametrize(
    ("committed", "start", "end", "lag"),
    [
        (4, 0, 10, 6),
        (10, 0, 10, 0),
        (4, 7, 10, 3),  # the records before 7 were removed
        (12, 0, 10, 0),  # the log lost its end
        (0, 0, 0, 0),
        (4, 0, UNKNOWN, None),
    ],
)
def test_the_lag_of_a_partition(committed: int, start: int, end: int, lag: int | None) -> None:
    """Records that the group can still read; unknown if the end is."""
    table = OffsetTable()
    put(table, "g", FLIGHTS, 0, committed)
    scan = table.lags({FLIGHTS: ends((start, end))})
    expected = GroupLag(GroupId("g"), 0, 0, 1) if lag is None else GroupLag(GroupId("g"), lag, 1, 0)
    assert end_of(scan.groups()) == [expected]
    assert end_of(scan.partitions(GroupId("g"))) == ([] if lag is None else [PartitionLag(FLIGHTS, 0, lag)])


def test_partitions_that_do_not_exist_are_unknown() -> None:
    """Of a topic that is gone, or beyond the topic's partitions, also far beyond."""
    table = OffsetTable()
    for partition in (0, 1, 1 << 20):
        put(table, "g", FLIGHTS, partition, 1)
    put(table, "g", GONE, 0, 1)
    scan = table.lags({FLIGHTS: ends((0, 5))})
    assert end_of(scan.groups()) == [GroupLag(GroupId("g"), 4, 1, 3)]
    assert end_of(table.lags({}).partitions(GroupId("nobody"))) == []


@pytest.mark.parametrize("seed", range(5))
def test_the_lags_of_all_groups_are_those_of_their_partitions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any number of steps, after commits, removals and groups that were forgotten."""
    random, table = Random(seed), OffsetTable()
    monkeypatch.setattr(lags, "ROWS_A_STRETCH", 7)
    monkeypatch.setattr(scanning, "ROWS_A_STRETCH", 7)
    monkeypatch.setattr(lags, "_AT_ONCE", 3)
    topics = {
        TopicName(f"t{number}"): ends(*[(random.randrange(3), random.choice((UNKNOWN, 3, 9)))] * 3)
        for number in range(4)
    }
    held: dict[tuple[str, str, int], int] = {}
    for _ in range(150):
        place = (f"g{random.randrange(9)}", f"t{random.randrange(5)}", random.randrange(4))
        if random.random() < 0.7:
            held[place] = random.randrange(9)
            put(table, *place, held[place])
        else:
            held.pop(place, None)
            table.remove(GroupId(place[0]), TopicName(place[1]), place[2])
    expected: dict[str, list[int | None]] = {}
    for (group_id, topic, partition), offset in held.items():
        known = topics.get(TopicName(topic))
        lag = None
        if known is not None and partition < len(known.ends) and known.ends[partition] != UNKNOWN:
            lag = max(0, int(known.ends[partition]) - max(offset, int(known.starts[partition])))
        expected.setdefault(group_id, []).append(lag)
    scan = table.lags(topics)
    found = {lag.group_id: lag for lag in end_of(scan.groups())}
    assert found.keys() == expected.keys()
    for group_id, each in expected.items():
        known_lags = [lag for lag in each if lag is not None]
        group = GroupId(group_id)
        assert found[group] == GroupLag(group, sum(known_lags), len(known_lags), each.count(None))
        assert sorted(one.lag for one in end_of(scan.partitions(group))) == sorted(known_lags)

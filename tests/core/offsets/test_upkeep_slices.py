"""Maintenance of a shard runs in small slices, and loses nothing between them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from tests.columns import column_batch
from tests.core.shard_states import offsets_of_topic

from headgate.core.commands import DeleteTopicOffsets, Tick
from headgate.core.offsets import reclaiming, scanning
from headgate.core.offsets import table as tables
from headgate.core.offsets.removal import SLICE_STEPS
from headgate.core.offsets.table import OffsetTable
from headgate.core.shard import GroupShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import ColumnBatch, GroupTombstone, OffsetCommit, OffsetTombstone, Record
from headgate.records.columns import record_count

START = Millis(1_700_000_000_000)
MINUTE = 60_000
SETTINGS = Settings({"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": "60000"})
MOST_A_SLICE = SLICE_STEPS // 8 + 1
TOPIC = TopicName("t")


def committed(group_id: str, partition: int = 0, at: int = START) -> OffsetCommit:
    """Return a committed offset."""
    return OffsetCommit(GroupId(group_id), TOPIC, partition, 1, -1, "", Millis(at))


def wide(group_id: str, count: int, at: int = START) -> ColumnBatch:
    """Return a commit of `count` partitions in columns."""
    numbers = np.arange(count)
    return column_batch(GroupId(group_id), TOPIC, numbers, numbers, np.full(count, -1), "", Millis(at))


def shard_of(*records: OffsetCommit | ColumnBatch) -> GroupShard:
    """Return a loaded shard with these records."""
    shard = GroupShard(SETTINGS)
    for record in records:
        shard.apply(record, 0)
    shard.loaded(START)
    return shard


def tick_by_tick(
    shard: GroupShard, until: Millis, between: Callable[[int], None] = lambda tick: None
) -> list[list[Record]]:
    """Run the due work of a shard until a time; return the records of each tick with records."""
    slices: list[list[Record]] = []
    while (deadline := shard.next_deadline()) is not None and deadline <= until:
        records = list(shard.handle(Tick(), deadline).records)
        for record in records:
            shard.apply(record, 0)
        if records:
            slices.append(records)  # type: ignore[arg-type]
            between(len(slices))
    return slices


def test_a_wide_group_expires_in_slices_and_goes_with_the_last() -> None:
    """A slice is small, other work runs between two of them, and the group's tombstone comes last."""
    shard = shard_of(wide("wide", 2000), committed("young", at=START + 9 * MINUTE))
    slices = tick_by_tick(shard, Millis(START + 10 * MINUTE + 10_000))
    assert max(sum(map(record_count, records)) for records in slices) <= MOST_A_SLICE
    assert [sum(isinstance(one, OffsetTombstone) for one in records) for records in slices[:-1]] == [
        len(records) for records in slices[:-1]
    ]
    assert slices[-1][-1] == GroupTombstone(GroupId("wide"))
    assert list(shard.offsets.group_ids()) == ["young"]
    assert shard.offset_count == 1


@pytest.mark.parametrize("partition", [0, 1999, 5000])
def test_a_group_that_commits_while_it_expires_stays(partition: int) -> None:
    """For a new offset at any position: before the walk, after it, or where nothing was."""
    shard = shard_of(wide("g", 2000))
    late = committed("g", partition, START + 10 * MINUTE)
    tick_by_tick(
        shard,
        Millis(START + 10 * MINUTE + 10_000),
        lambda tick: shard.apply(late, 0) if tick == 3 else None,
    )
    assert shard.offsets.has_group(GroupId("g"))
    assert [found[:2] for found in shard.offsets.offsets_of(GroupId("g"))] == [(TOPIC, partition)]


def test_a_sweep_in_which_hardly_anything_expires_is_cut_as_well() -> None:
    """A scan of thousands of offsets takes time, even if only one of them is removed."""
    count = 3 * SLICE_STEPS
    shard = shard_of(wide("g", count, START + 9 * MINUTE), committed("g", count))
    ticks = 0
    while (deadline := shard.next_deadline()) is not None and deadline < START + 11 * MINUTE:
        ticks += deadline >= START + 10 * MINUTE
        for record in shard.handle(Tick(), deadline).records:
            shard.apply(record, 0)
    assert ticks > 3
    assert shard.offset_count == count


def test_a_deleted_topic_goes_in_slices() -> None:
    """From a thousand groups and one wide one; the answer follows the last slice, other topics remain."""
    others = [OffsetCommit(GroupId(f"g-{one}"), TopicName("other"), 0, 1, -1, "", START) for one in range(50)]
    shard = shard_of(wide("wide", 1000), *(committed(f"g-{one}") for one in range(1000)), *others)
    first = shard.handle(DeleteTopicOffsets(TOPIC), START, 7)
    assert not first.replies
    assert 0 < len(first.records) <= MOST_A_SLICE
    for record in first.records:
        shard.apply(record, 0)
    answers: list[object] = []
    while not answers:
        deadline = shard.next_deadline()
        assert deadline is not None
        assert deadline < START + MINUTE
        effects = shard.handle(Tick(), deadline)
        assert len(effects.records) <= MOST_A_SLICE
        for record in effects.records:
            shard.apply(record, 0)
        answers = [reply.result for reply in effects.replies]
    assert answers == [ErrorCode.NONE]
    assert shard.topics_with_offsets() == {"other"}
    assert shard.offset_count == 50


@pytest.mark.parametrize("seed", range(20))
def test_no_offset_is_passed_over_while_rows_are_dropped(seed: int) -> None:
    """Rows move during the scan, and every row that existed at its start is found."""
    random = Random(seed)
    with (
        patch.object(tables, "_ROWS_LEFT_BEHIND", 3),
        patch.object(tables, "_LEFT_BEHIND_A_STEP", 1),
        patch.object(tables, "_RECLAIMED_AT_ONCE", 2),
        patch.object(reclaiming, "_ROOM_AT_ONCE", 9),
        patch.object(reclaiming, "_FOUND_OUT_AT_ONCE", 7),
        patch.object(scanning, "ROWS_A_STRETCH", 5),
    ):
        table = OffsetTable()
        places = [(f"g-{one}", topic) for one in range(60) for topic in ("t", "u")]
        random.shuffle(places)
        for group_id, topic in places:
            table.put(OffsetCommit(GroupId(group_id), TopicName(topic), 0, 1, -1, "", START))
        looking, old = table.offsets_of_topic(TOPIC), table.groups_to_sweep(START)
        found: set[str] = set()
        goes_on = True
        while not looking.is_over or goes_on:
            found |= {group_id for group_id, _ in looking.step(2)}
            goes_on = goes_on and old.step()
            for _ in range(random.randrange(4)):
                group_id, topic = random.choice(places)
                if topic == "u":
                    table.remove(GroupId(group_id), TopicName(topic), 0)
            table.reclaim()
        assert len(table) < len(places), "something was removed meanwhile"
        assert found == {f"g-{one}" for one in range(60)}
        assert set(table.group_ids_of(old.groups())) == found
        assert len(offsets_of_topic(table, TOPIC)) == 60

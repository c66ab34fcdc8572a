"""Images of a shard: read while it changes, restored, and completed by the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.shard_states import changes, state_of

from headgate.core import image as shard_image
from headgate.core.contract import MalformedImage
from headgate.core.groups import UnknownKind
from headgate.core.offsets import image, table
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import (
    ChangeAuthor,
    GroupMetadata,
    OffsetCommit,
    OffsetTombstone,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    Record,
    UnknownRecord,
)

Parts = list[tuple[str, bytes]]


def fresh() -> GroupShard:
    return GroupShard(Settings({}))


def apply_all(shard: GroupShard, script: list[Any]) -> None:
    for position, change in enumerate(script):
        shard.apply(change, position)


def restored(parts: Parts, contents: Any) -> GroupShard:
    """A shard made of these parts."""
    shard = fresh()
    for _ in shard.restore(lambda kind: iter([data for one, data in parts if one == kind]), contents):
        pass
    return shard


scripts = st.lists(changes, max_size=25)


@given(scripts, st.lists(scripts, max_size=12), st.integers(0, 4))
@settings(deadline=None, max_examples=200)
def test_an_image_and_the_log_since_restore_the_shard(
    before: list[Any], meanwhile: list[list[Any]], overlap: int
) -> None:
    """Whatever happens between two parts, and also if more of the log is applied than necessary."""
    with (
        patch.object(image, "_ROWS_A_PART", 5),
        patch.object(image, "_ROWS_A_PART_WITH_TEXTS", 3),
        patch.object(image, "_NAME_BYTES_A_PART", 5),
        patch.object(shard_image, "_RECORDS_A_PART", 1),
        patch.object(table, "_ROWS_LEFT_BEHIND", 1),
    ):
        live = fresh()
        apply_all(live, before)
        parts: Parts = []
        pending = iter(meanwhile)
        since: list[Any] = []
        for part in live.image():
            parts.append(part)
            more = next(pending, [])
            apply_all(live, more)
            since += more
        for more in pending:
            apply_all(live, more)
            since += more
        again = restored(parts, live.contents())
    apply_all(again, before[len(before) - overlap :] if overlap else [])
    apply_all(again, since)
    assert state_of(again) == state_of(live)


def test_every_record_of_groups_is_in_the_image_or_refused_when_it_is_written() -> None:
    """The image includes every kind that accepts a record; a record of no kind is not written."""
    shard = fresh()
    offsets = {OffsetCommit, OffsetTombstone, UnknownRecord, ChangeAuthor}  # authors are no state
    pauses = {PausedTopicPartitions, PausedTopicPartitionsTombstone}  # of any group: tests/core/pause
    for record_type in {*get_args(Record)} - offsets - pauses:
        kind = shard.groups.kind_of_record(record_type.__new__(record_type))
        assert kind in shard.groups.kinds

    class StreamsGroupMetadata(NamedTuple):
        group_id: GroupId

    with pytest.raises(UnknownKind, match="StreamsGroupMetadata"):
        shard.apply(StreamsGroupMetadata(GroupId("g")), 0)  # type: ignore[arg-type]


def test_rows_are_not_renumbered_while_an_image_is_read() -> None:
    """Removed rows are reclaimed after the image, also if it is abandoned."""
    with patch.object(table, "_ROWS_LEFT_BEHIND", 1), patch.object(image, "_ROWS_A_PART", 10):
        shard = fresh()
        for number in range(100):
            shard.apply(_commit(f"g{number}", number), 0)
        parts = shard.image()
        next(parts)
        for number in range(50):
            shard.apply(OffsetTombstone(GroupId(f"g{number}"), TopicName("t"), number), 0)
        assert len(shard.offsets._rows.keys) == 100
        assert isinstance(parts, Iterator)
        assert shard.offsets.reclaim(), "there is something to do"
        assert len(shard.offsets._rows.keys) == 100
        parts.close()  # type: ignore[attr-defined]
        while shard.offsets.reclaim():
            pass
        assert len(shard.offsets._rows.keys) == 50


def test_the_size_of_a_part_is_limited() -> None:
    """To some ten thousand offsets."""
    shard = fresh()
    numbers = np.arange(100_000)
    for partition in numbers.tolist():
        shard.apply(_commit("g", partition), 0)
    sizes = [len(data) for kind, data in shard.image() if kind == image.ROWS]
    assert len(sizes) > 3
    assert max(sizes) < 1 << 20


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        (image.ROWS, "shorter"),
        (image.ROWS, "longer"),
        (image.GROUPS, "shorter"),
        (image.GROUPS, "longer"),
        (image.GROUPS, "gone"),
        (image.TOPICS, "shorter"),
        (image.TOPICS, "gone"),
        ("records", "shorter"),
    ],
)
def test_inconsistent_parts_are_refused(kind: str, damage: str) -> None:
    """Cut, missing or too long ones."""
    shard = fresh()
    for number in range(20):
        shard.apply(_commit(f"g{number}", number, "note"), 0)
    shard.apply(GroupMetadata(GroupId("g1"), "consumer", 3, None, None, Millis(1)), 0)
    damaged: Parts = []
    for one, data in shard.image():
        if one != kind:
            damaged.append((one, data))
        elif damage != "gone":
            damaged.append((one, data[:-3] if damage == "shorter" else data + b"\x00"))
    with pytest.raises(MalformedImage):
        restored(damaged, shard.contents())


def _commit(group: str, partition: int, metadata: str = "") -> OffsetCommit:
    return OffsetCommit(GroupId(group), TopicName("t"), partition, partition * 3, -1, metadata, Millis(1))


def test_a_partition_out_of_range_during_an_image_is_not_another_topics() -> None:
    """Its number is free after the restore, and the topic that gets it has its own name."""
    live = fresh()
    live.apply(_commit("g", 1), 0)
    parts: Parts = []
    for part in live.image():
        parts.append(part)
        if part[0] == image.KNOWN:
            live.apply(OffsetCommit(GroupId("g"), TopicName("high"), 1 << 20, 5, -1, "", Millis(1)), 1)
    again = restored(parts, live.contents())
    again.apply(OffsetCommit(GroupId("g"), TopicName("other"), 3, 7, -1, "", Millis(1)), 1)
    held = again.offsets.offsets_of(GroupId("g"))
    assert {(topic, partition) for topic, partition, _ in held} == {("t", 1), ("other", 3)}

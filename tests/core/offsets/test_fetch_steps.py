"""Fetches of many topics use one snapshot and are answered in steps."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.core.offsets.test_fetches_again import told

from headgate.core.offsets import fetch as fetching
from headgate.core.offsets.commands import FetchedColumns, FetchedInSteps, FetchedOffsets, FetchOffsets
from headgate.core.shard import GroupShard
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.records import GroupMetadata, OffsetCommit, OffsetTombstone

G, H = GroupId("g"), GroupId("h")
HIGH = 1 << 18
"""A partition that does not fit into a key."""
PLACES = [("wide", one) for one in range(40)]
PLACES += [("high", one) for one in (*range(20), HIGH + 3, HIGH + 1, 7 * HIGH, -1)]
PLACES += [(f"narrow {one}", 5) for one in range(300)]


def committed(topic: str, partition: int, offset: int, metadata: str = "") -> OffsetCommit:
    return OffsetCommit(G, TopicName(topic), partition, offset, 3, metadata, Millis(9))


def shard_of(metadata: str) -> GroupShard:
    """Return a shard with one group's offsets, in no order; every third has metadata."""
    shard = GroupShard(Settings({}))
    for number, (topic, partition) in enumerate(reversed(PLACES)):
        shard.apply(committed(topic, partition, number, "" if number % 3 else metadata), 0)
    shard.apply(OffsetCommit(H, TopicName("wide"), 7, 1, -1, "other", Millis(9)), 0)
    shard.apply(OffsetTombstone(G, TopicName("wide"), 4), 0)
    return shard


def ask(shard: GroupShard, command: FetchOffsets) -> Any:
    return shard.handle(command, Millis(0)).replies[0].result


def drive(result: Any) -> tuple[FetchedOffsets, int]:
    """Return the result, and the number of steps."""
    assert isinstance(result, FetchedInSteps)
    count = 0
    while True:
        try:
            next(result.steps)
        except StopIteration as stop:
            return stop.value, count
        count += 1


NAMED: list[tuple[TopicName, Any]] = [(TopicName(topic), [4, 5, 39, 0]) for topic, _ in reversed(PLACES[60:])]
NAMED += [(TopicName("wide"), np.arange(60)), (TopicName("none"), [1]), (TopicName("none"), np.arange(20))]
NAMED += [(TopicName("high"), [HIGH + 1, -1, 2]), (TopicName("high"), np.array([7 * HIGH, 2, 2, HIGH] * 5))]


@pytest.mark.parametrize("metadata", ["", "text"])
@pytest.mark.parametrize("topics", [None, NAMED], ids=["all", "named"])
@pytest.mark.interpreted
def test_an_answer_in_steps_is_the_same_as_one_at_once(topics: Any, metadata: str) -> None:
    """For any request: wide topics and narrow ones, partitions out of range and without offsets."""
    shard, command = shard_of(metadata), FetchOffsets(G, topics)
    at_once = ask(shard, command)
    assert isinstance(at_once, FetchedOffsets)
    with patch.object(fetching, "MOST_AT_ONCE", 10):
        in_steps, count = drive(ask(shard, command))
    by_steps, by_once = told(command, in_steps), told(command, at_once)
    if topics is None:
        assert sorted(by_steps) == sorted(by_once)
        assert len(by_once) == len(PLACES) - 1
    else:
        assert by_steps == by_once
    assert count >= 300 // 64


@pytest.mark.parametrize("shard", [GroupShard(Settings({})), shard_of("text")], ids=["empty", "of others"])
@pytest.mark.interpreted
def test_a_group_without_offsets_has_the_same_answer_in_steps(shard: GroupShard) -> None:
    """For any number of topics."""
    shard.apply(GroupMetadata(GroupId("nobody"), "", 0, None, None, Millis(9)), 0)
    command = FetchOffsets(GroupId("nobody"), [(TopicName("wide"), [0, 1]), (TopicName("none"), [7])])
    with patch.object(fetching, "MOST_AT_ONCE", 1):
        in_steps, _ = drive(ask(shard, command))
    assert told(command, in_steps) == told(command, ask(shard, command))


@pytest.mark.interpreted
def test_an_answer_in_steps_is_of_the_moment_of_the_request() -> None:
    """Commits, removals, released names and topics with other ids do not change it."""
    shard = shard_of("text")
    known = TopicChange(TopicName("wide"), KnownTopic(TopicId(b"1" * 16), 40))
    shard.handle(TopicsChanged([known]), Millis(0))
    command = FetchOffsets(G, None)
    before = sorted(told(command, ask(shard, command)))
    with patch.object(fetching, "MOST_AT_ONCE", 10):
        result = ask(shard, command)
    for topic, partition in PLACES:
        shard.apply(committed(topic, partition, 777, "new"), 0)
        shard.apply(OffsetTombstone(G, TopicName(topic), partition), 0)
    shard.offsets.forget_group(G)
    for _ in range(50):
        shard.offsets.reclaim()
    for number in range(400):
        shard.apply(OffsetCommit(H, TopicName(f"new {number}"), 1, 1, 1, "", Millis(9)), 0)
    another = TopicChange(TopicName("wide"), KnownTopic(TopicId(b"2" * 16), 40))
    shard.handle(TopicsChanged([another]), Millis(0))
    found, _ = drive(result)
    assert sorted(told(command, found)) == before
    assert found.topic_ids == {"wide": b"1" * 16}


@pytest.mark.interpreted
def test_names_are_released_again_when_an_answer_is_given_up() -> None:
    """An abandoned answer releases the table."""
    shard = shard_of("")
    with patch.object(fetching, "MOST_AT_ONCE", 10):
        result = ask(shard, FetchOffsets(G, None))
    holds = shard.offsets._holds
    del result
    assert (holds, shard.offsets._holds) == (1, 0)


def test_many_offsets_with_metadata_are_columns() -> None:
    """A hundred thousand offsets are not a hundred thousand objects."""
    shard = shard_of("text")
    (topic,) = ask(shard, FetchOffsets(G, [(TopicName("wide"), list(range(50)))])).topics
    assert isinstance(topic[1], FetchedColumns)
    assert set(topic[1].metadata) == {"", "text"}
    (topic,) = ask(shard, FetchOffsets(GroupId("nobody"), [(TopicName("wide"), list(range(50)))])).topics
    assert isinstance(topic[1], FetchedColumns)
    assert set(topic[1].offsets.tolist()) == {-1}

"""The result of a fetch is returned again exactly as long as it is current."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columns import column_batch
from tests.core.harness import Harness
from tests.core.shard_states import changes
from tests.fetched import again, each_fetched

from headgate.core.commands import DeleteGroup, DeleteTopicOffsets
from headgate.core.offsets import table
from headgate.core.offsets.commands import (
    CommitOffsets,
    Commits,
    DeleteOffsets,
    FetchedNumbers,
    FetchedOffsets,
    FetchesAgain,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
    RepeatedFetch,
)
from headgate.core.offsets.commit import shape_of
from headgate.core.offsets.fetch import MOST_NARROW
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, MemberId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import (
    GroupMetadata,
    GroupTombstone,
    OffsetBatch,
    OffsetCommit,
    RecordShape,
)
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows

G, T, U = GroupId("g"), TopicName("t"), TopicName("t2")
WIDE = np.arange(40)
TOPICS: list[list[tuple[TopicName, Any]]] = [
    [(T, [0, 1, 5])],
    [(T, [262_144, 0])],
    [(T, WIDE)],
    [(T, np.arange(100)), (U, [1, 2])],
    [(T, np.append(WIDE, 2**31 - 1))],
]
FETCHES = [FetchOffsets(group, topics) for group in (G, GroupId("g1")) for topics in TOPICS]

STANDING = [RecordShape(group, T, partition, 4) for group in (G, GroupId("g1")) for partition in (0, 5)]
standing = st.lists(st.tuples(st.sampled_from(STANDING), st.integers(0, 9)), min_size=1, max_size=3).map(
    lambda pairs: OffsetBatch([one for one, _ in pairs], [offset for _, offset in pairs], Millis(9))
)

Told = list[tuple[TopicName, int, int, int, str]]


def told(fetch: FetchOffsets, result: Any) -> Told:
    """Return topic, partition, offset, leader epoch and metadata of a fetch's result, whatever its form."""
    if isinstance(result, FetchedNumbers):
        places = [(topic, int(one)) for topic, partitions in fetch.topics or () for one in partitions]
        numbers = zip(places, result.offsets, result.leader_epochs, strict=True)
        return [(*place, int(offset), int(epoch), "") for place, offset, epoch in numbers]
    assert isinstance(result, FetchedOffsets)
    return list(each_fetched(result))


def ask(shard: GroupShard, command: Any) -> Any:
    """Return the result of a command."""
    return shard.handle(command, Millis(0)).replies[0].result


def ask_changes(shard: GroupShard, command: Any) -> Any:
    """Return the records of a command."""
    return shard.handle(command, Millis(0)).records


@given(st.lists(st.one_of(changes, changes, standing), max_size=40))
@settings(deadline=None, max_examples=150)
def test_a_repeated_fetch_always_finds_what_one_that_is_new_finds(script: list[Any]) -> None:
    """After any changes: commits of one or many, of other groups, tombstones, deleted and new groups."""
    shard = GroupShard(Settings({}))
    with patch.object(table, "_ROWS_LEFT_BEHIND", 1):  # rows move
        for position, change in enumerate(script):
            shard.apply(change, position)
            for fetch in FETCHES:
                assert told(fetch, ask(shard, FetchesAgain([again(fetch)]))[0]) == told(
                    fetch, ask(shard, replace(fetch))
                )


def narrow(*partitions: int, offset: int, metadata: str = "") -> list[OffsetToCommit]:
    """Return partitions with the same offset and metadata."""
    return [OffsetToCommit(partition, offset, 3, metadata) for partition in partitions]


def commit(group_id: str, offset: int, metadata: str = "") -> CommitOffsets:
    """Return a wide commit in columns."""
    columns = OffsetColumns(WIDE, WIDE + offset, np.full(len(WIDE), 3), metadata)
    return CommitOffsets(GroupId(group_id), [(T, columns)])


@pytest.mark.parametrize("metadata", ["", "note"])
@pytest.mark.parametrize("fetch", FETCHES[:4], ids=["narrow", "high", "wide", "of two topics"])
def test_as_long_as_nothing_changes_the_result_is_the_same_object(fetch: FetchOffsets, metadata: str) -> None:
    """A response that was made of it need not be made again."""
    h = Harness()
    repeated = RepeatedFetch(fetch)
    h.ask(commit("g", 5, metadata))
    h.ask(commit("other", 5))
    first = h.ask(FetchesAgain([repeated]))[0]
    assert h.ask(FetchesAgain([repeated]))[0] is first
    h.ask(CommitOffsets(G, [(T, narrow(1, offset=7))]))
    assert h.ask(FetchesAgain([repeated]))[0] is not first


def test_commits_of_others_leave_the_result_of_few_partitions_the_same_object() -> None:
    """It is read again, and found to be equal."""
    h = Harness()
    repeated = RepeatedFetch(FETCHES[0])
    h.ask(commit("g", 5))
    first = h.ask(FetchesAgain([repeated]))[0]
    h.ask(commit("other", 6))
    h.ask(CommitOffsets(GroupId("other"), [(T, narrow(1, offset=7))]))
    assert h.ask(FetchesAgain([repeated]))[0] is first


def test_what_another_shard_had_is_not_reported() -> None:
    """A shard after a load has other rows, and perhaps other offsets."""
    repeated = RepeatedFetch(FETCHES[0])
    shape = shape_of(CommitOffsets(G, [(T, narrow(0, offset=0))]))
    for offset in (3, 4):
        shard = GroupShard(Settings({}))
        shard.apply(OffsetCommit(GroupId("first"), T, 0, 9, 0, "", Millis(1)), 0)
        for change in ask_changes(shard, Commits([shape], [(offset,)])):
            shard.apply(change, 1)
        assert ask(shard, FetchesAgain([repeated]))[0].offsets[0] == offset


@pytest.mark.parametrize(
    "change",
    [
        commit("g", 9),
        CommitOffsets(G, [(T, narrow(0, offset=9))]),
        CommitOffsets(G, [(T, narrow(0, offset=5, metadata="note"))]),
        CommitOffsets(G, [(T, narrow(0, offset=9))], retention_ms=5),
        DeleteOffsets(G, [(T, [0])]),
        DeleteGroup(G),
        DeleteTopicOffsets(T),
        None,
    ],
    ids=[
        "wide",
        "narrow",
        "metadata",
        "retention",
        "offset deleted",
        "group deleted",
        "topic deleted",
        "expiry",
    ],
)
@pytest.mark.parametrize("fetch", FETCHES[:4], ids=["narrow", "high", "wide", "of two topics"])
def test_whatever_touches_an_offset_is_seen_by_the_next_fetch(fetch: FetchOffsets, change: Any) -> None:
    """After commits and all kinds of removals."""
    h = Harness(offsets_retention_minutes="10", offsets_retention_check_interval_ms="10000")
    h.ask(commit("g", 5))
    before = told(fetch, h.ask(FetchesAgain([again(fetch)]))[0])
    if change is None:
        h.advance(11 * 60_000)
    else:
        h.ask(change)
    after = told(fetch, h.ask(FetchesAgain([again(fetch)]))[0])
    assert after == told(fetch, h.ask(replace(fetch)))
    assert after != before


@pytest.mark.parametrize("fetch", FETCHES[:4], ids=["narrow", "high", "wide", "of two topics"])
def test_rows_of_a_log_are_seen_by_the_next_fetch(fetch: FetchOffsets) -> None:
    """They have no names, so every earlier result is checked again."""
    shard = GroupShard(Settings({}))
    shard.apply(column_batch(G, T, WIDE, WIDE + 5, WIDE, "", Millis(1)), 0)
    before = told(fetch, ask(shard, FetchesAgain([again(fetch)]))[0])
    one = np.ones(1, np.int64)
    nothing = np.zeros(1, np.int64)
    shard.apply_rows(
        OffsetRows(
            prefixes=[key_prefix(G, T)],
            stretch_of=nothing,
            partitions=nothing,
            offsets=one * 77,
            leader_epochs=one.astype(np.int32),
            commit_timestamps=one,
            is_gone=np.zeros(1, np.bool_),
            metadata={},
        )
    )
    after = told(fetch, ask(shard, FetchesAgain([again(fetch)]))[0])
    assert (T, 0, 77, 1, "") in after
    assert after != before


def test_a_group_that_only_members_make_known_is_asked_about_each_time() -> None:
    """Its offsets remained in the table; a new group of that name has them again."""
    shard = GroupShard(Settings({}))
    fetch = FETCHES[0]
    shard.apply(OffsetCommit(G, T, 1, 5, 0, "", Millis(1)), 0)
    shard.apply(GroupTombstone(G), 1)
    assert {offset for _, _, offset, _, _ in told(fetch, ask(shard, FetchesAgain([again(fetch)]))[0])} == {-1}
    shard.apply(GroupMetadata(G, "consumer", 1, "range", MemberId("m"), Millis(3)), 2)
    assert told(fetch, ask(shard, FetchesAgain([again(fetch)]))[0])[1][2] == 5


assert len(FETCHES[0].topics[0][1]) <= MOST_NARROW < len(WIDE)  # type: ignore[index]

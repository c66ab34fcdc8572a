"""What was fetched is told again as long as it is true, and not a moment longer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.harness import Harness
from tests.core.shard_states import changes
from tests.fetched import each_fetched

from headgate.core.commands import DeleteGroup, DeleteTopicOffsets
from headgate.core.offsets import fetch_memory, table
from headgate.core.offsets.commands import (
    CommitOffsets,
    DeleteOffsets,
    FetchedNumbers,
    FetchedOffsets,
    FetchesAgain,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
)
from headgate.core.offsets.fetch import MOST_NARROW
from headgate.core.offsets.fetch_memory import FetchMemory, weight_bytes
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, MemberId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import (
    GroupMetadata,
    GroupTombstone,
    OffsetCommit,
    OffsetCommits,
    StandingCommit,
    StandingCommits,
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

STANDING = [StandingCommit(group, T, partition, 4) for group in (G, GroupId("g1")) for partition in (0, 5)]
standing = st.lists(st.tuples(st.sampled_from(STANDING), st.integers(0, 9)), min_size=1, max_size=3).map(
    lambda pairs: StandingCommits([one for one, _ in pairs], [offset for _, offset in pairs], Millis(9))
)

Told = list[tuple[TopicName, int, int, int, str]]


def told(fetch: FetchOffsets, result: Any) -> Told:
    """Topic, partition, offset, leader epoch and metadata of all that a fetch found, whatever says it."""
    if isinstance(result, FetchedNumbers):
        places = [(topic, int(one)) for topic, partitions in fetch.topics or () for one in partitions]
        numbers = zip(places, result.offsets, result.leader_epochs, strict=True)
        return [(*place, int(offset), int(epoch), "") for place, offset, epoch in numbers]
    assert isinstance(result, FetchedOffsets)
    return list(each_fetched(result))


def ask(shard: GroupShard, command: Any) -> Any:
    return shard.handle(command, Millis(0)).replies[0].result


@given(st.lists(st.one_of(changes, changes, standing), max_size=40))
@settings(deadline=None, max_examples=150)
def test_a_fetch_that_comes_again_always_finds_what_one_that_is_new_finds(script: list[Any]) -> None:
    """Whatever changes in between: commits of one or many, of others, tombstones, groups that go or come."""
    shard = GroupShard(Settings({}))
    with patch.object(table, "_ROWS_LEFT_BEHIND", 1):  # rows move
        for position, change in enumerate(script):
            shard.apply(change, position)
            for fetch in FETCHES:
                assert told(fetch, ask(shard, FetchesAgain([fetch]))[0]) == told(
                    fetch, ask(shard, replace(fetch))
                )


def narrow(*partitions: int, offset: int, metadata: str = "") -> list[OffsetToCommit]:
    return [OffsetToCommit(partition, offset, 3, metadata) for partition in partitions]


def commit(group_id: str, offset: int, metadata: str = "") -> CommitOffsets:
    columns = OffsetColumns(WIDE, WIDE + offset, np.full(len(WIDE), 3), metadata)
    return CommitOffsets(GroupId(group_id), [(T, columns)])


@pytest.mark.parametrize("metadata", ["", "note"])
@pytest.mark.parametrize("fetch", FETCHES[:4], ids=["narrow", "high", "wide", "of two topics"])
def test_as_long_as_a_group_stays_as_it_is_the_result_is_the_same_object(
    fetch: FetchOffsets, metadata: str
) -> None:
    """Who has made an answer of it need not make it again; commits of other groups change nothing."""
    h = Harness()
    h.ask(commit("g", 5, metadata))
    h.ask(commit("other", 5))
    first = h.ask(FetchesAgain([fetch]))[0]
    h.ask(commit("other", 6))
    h.ask(CommitOffsets(GroupId("other"), [(T, narrow(1, offset=7))]))
    assert h.ask(FetchesAgain([fetch]))[0] is first
    h.ask(CommitOffsets(G, [(T, narrow(1, offset=7))]))
    assert h.ask(FetchesAgain([fetch]))[0] is not first


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
    """Commits and all ways in which offsets go."""
    h = Harness(offsets_retention_minutes="10", offsets_retention_check_interval_ms="10000")
    h.ask(commit("g", 5))
    before = told(fetch, h.ask(FetchesAgain([fetch]))[0])
    if change is None:
        h.advance(11 * 60_000)
    else:
        h.ask(change)
    after = told(fetch, h.ask(FetchesAgain([fetch]))[0])
    assert after == told(fetch, h.ask(replace(fetch)))
    assert after != before


@pytest.mark.parametrize("fetch", FETCHES[:4], ids=["narrow", "high", "wide", "of two topics"])
def test_rows_of_a_log_are_seen_by_the_next_fetch(fetch: FetchOffsets) -> None:
    """They come without names: nothing that was fetched before is believed."""
    shard = GroupShard(Settings({}))
    shard.apply(OffsetCommits(G, T, WIDE, WIDE + 5, WIDE, "", Millis(1)), 0)
    before = told(fetch, ask(shard, FetchesAgain([fetch]))[0])
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
    after = told(fetch, ask(shard, FetchesAgain([fetch]))[0])
    assert (T, 0, 77, 1, "") in after
    assert after != before


def test_a_group_that_only_members_make_known_is_asked_about_each_time() -> None:
    """Its offsets outlived it in the table; a group of that name that comes back has them again."""
    shard = GroupShard(Settings({}))
    fetch = FETCHES[0]
    shard.apply(OffsetCommit(G, T, 1, 5, 0, "", Millis(1)), 0)
    shard.apply(GroupTombstone(G), 1)
    assert {offset for _, _, offset, _, _ in told(fetch, ask(shard, FetchesAgain([fetch]))[0])} == {-1}
    shard.apply(GroupMetadata(G, "consumer", 1, "range", MemberId("m"), Millis(3)), 2)
    assert told(fetch, ask(shard, FetchesAgain([fetch]))[0])[1][2] == 5


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many fetches there are, however wide one is, and however long its names."""
    monkeypatch.setattr(fetch_memory, "MOST_BYTES", 100_000)
    memory = FetchMemory()
    fetches = [FetchOffsets(GroupId(f"group-{at % 9}"), [(T, list(range(25 * at)))]) for at in range(130)]
    fetches += [FetchOffsets(G, [(TopicName("t" * 2000 * at), [0])]) for at in range(14)]
    for fetch in fetches:
        memory.remember(fetch, "result")
        kept = [one for one in fetches if memory.get(one) is not None]
        assert sum(map(weight_bytes, kept)) <= 100_000
        names_and_partitions = sum(
            len(name) + 24 * len(partitions) for one in kept for name, partitions in one.topics or ()
        )
        assert names_and_partitions <= 100_000
    assert memory.get(fetches[-1]) is None


def test_the_memory_is_emptied_by_what_does_not_fit_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly as much as there may be does fit."""
    fetches = [FetchOffsets(GroupId(f"g{at}"), [(T, [0, 1]), (U, [2, 3])]) for at in range(3)]
    monkeypatch.setattr(fetch_memory, "MOST_BYTES", 2 * weight_bytes(fetches[0]))
    memory = FetchMemory()
    for fetch in fetches[:2]:
        memory.remember(fetch, fetch.group_id)
    assert ([memory.get(fetch) for fetch in fetches], len(memory)) == (["g0", "g1", None], 2)
    memory.remember(fetches[2], "third")
    assert ([memory.get(fetch) for fetch in fetches], len(memory)) == ([None, None, "third"], 1)
    memory.remember(fetches[0], "first")
    assert len(memory) == 2, "room is counted anew since it was emptied"
    memory.forget(GroupId("g2"))
    memory.forget(GroupId("unknown"))
    assert ([memory.get(fetch) for fetch in fetches], len(memory)) == (["first", None, None], 1)
    wide = FetchOffsets(GroupId("wide"), [(T, list(range(9)))])
    for most, fits in ((weight_bytes(wide), True), (weight_bytes(wide) - 1, False)):
        monkeypatch.setattr(fetch_memory, "MOST_BYTES", most)
        memory.remember(wide, "wide")
        assert (memory.get(wide) == "wide", len(memory)) == (fits, int(fits))
    everything = FetchOffsets(G, None)
    memory.remember(everything, "all")
    assert memory.get(everything) == "all"


assert len(FETCHES[0].topics[0][1]) <= MOST_NARROW < len(WIDE)  # type: ignore[index]

"""Commits and fetches: who may commit, what is stored, and what is answered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.core.harness import NONE, Harness, join, leave, sync

from headgate.core.classic.state import ClassicState
from headgate.core.commands import ListGroups
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import OffsetCommit, decode
from headgate.records.columns import record_count

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def to_commit(
    partition: int = 0, offset: int = 1, leader_epoch: int = -1, metadata: str = ""
) -> OffsetToCommit:
    """Return a partition of a commit."""
    return OffsetToCommit(partition, offset, leader_epoch, metadata)


def commit(*partitions: OffsetToCommit, group_id: str = "g", topic: str = "t", **more: Any) -> CommitOffsets:
    """Return a commit of one topic."""
    return CommitOffsets(GroupId(group_id), [(TopicName(topic), partitions)], **more)


COMMITS: list[tuple[str, str, str, int, str | None, bool, ErrorCode]] = [
    # state of the group, its id, member, generation, instance, from v9, the answer
    ("stable", "g", "a", 1, None, True, NONE),
    ("stable", "g", "s", 1, "s", True, NONE),
    ("stable", "g", "", -1, None, True, UNKNOWN),
    ("stable", "g", "a", -1, None, True, ErrorCode.ILLEGAL_GENERATION),
    ("stable", "g", "a", 2, None, True, ErrorCode.ILLEGAL_GENERATION),
    ("stable", "g", "x", 1, None, True, UNKNOWN),
    ("stable", "g", "", 1, None, True, UNKNOWN),
    ("stable", "g", "a", 1, "s", True, ErrorCode.FENCED_INSTANCE_ID),
    ("stable", "g", "a", 1, "unknown", True, UNKNOWN),
    ("stable", "g", "", -1, "s", True, ErrorCode.FENCED_INSTANCE_ID),
    ("preparing", "g", "a", 1, None, True, NONE),
    ("preparing", "g", "", -1, None, True, UNKNOWN),
    ("completing", "g", "a", 2, None, True, ErrorCode.REBALANCE_IN_PROGRESS),
    ("completing", "g", "a", 1, None, True, ErrorCode.ILLEGAL_GENERATION),
    ("completing", "g", "", -1, None, True, UNKNOWN),
    ("empty", "g", "", -1, None, True, NONE),
    ("empty", "g", "a", -1, None, True, NONE),
    ("empty", "g", "", -7, None, True, NONE),
    ("empty", "g", "a", 2, None, True, UNKNOWN),
    ("pending", "g", "", -1, None, True, NONE),
    ("pending", "g", "a", 0, None, True, UNKNOWN),
    ("unknown", "nobody", "", -1, None, True, NONE),
    ("unknown", "", "", -1, None, True, NONE),
    ("unknown", "nobody", "x", -1, None, True, NONE),
    ("unknown", "nobody", "x", 1, None, True, ErrorCode.GROUP_ID_NOT_FOUND),
    ("unknown", "nobody", "x", 1, None, False, ErrorCode.ILLEGAL_GENERATION),
    ("simple", "g", "x", 1, None, True, UNKNOWN),
    ("simple", "g", "x", 1, None, False, UNKNOWN),
    ("simple", "g", "", -1, None, False, NONE),
]


def group_in(state: str) -> Harness:
    """Return a shard with group g in this state."""
    h = Harness()
    if state == "simple":
        h.commit("g")
    elif state == "pending":
        h.ask(join(new_member_id="p"))
    elif state != "unknown":
        tokens = [
            h.send(join(new_member_id="a", must_know_member_id=False)),
            h.send(join(new_member_id="s", instance_id="s")),
        ]
        while h.is_parked(tokens[0]):
            h.advance(500)
        for one in ("s", "a"):
            h.send(sync(one, 1))
    if state in ("preparing", "completing"):
        h.send(join(member_id="a"))
    if state == "completing":
        h.send(join(member_id="s", instance_id="s"))
        assert h.state("g") is ClassicState.COMPLETING_REBALANCE
    if state == "empty":
        h.ask(leave(("a", None), ("s", None)))
        assert h.state("g") is ClassicState.EMPTY
    return h


@pytest.mark.parametrize(
    ("state", "group_id", "member_id", "generation", "instance_id", "is_new", "expected"), COMMITS
)
def test_a_commit_is_answered(
    state: str,
    group_id: str,
    member_id: str,
    generation: int,
    instance_id: str | None,
    is_new: bool,
    expected: ErrorCode,
) -> None:
    """One row per commit, in the order of Kafka's checks; a refused commit changes nothing."""
    h = group_in(state)
    result = h.commit(
        group_id,
        topic="fresh",
        offset=42,
        member_id=member_id,
        generation=generation,
        instance_id=instance_id,
        knows_group_not_found=is_new,
    )
    assert result == CommitResult(expected)
    assert h.offset(group_id, "fresh") == (42 if expected == NONE else None)


def test_what_is_committed_is_fetched() -> None:
    """Offset, leader epoch and metadata, byte for byte; also negative offsets, as observed in Kafka 4.3.1."""
    h = Harness()
    h.ask(commit(to_commit(0, 5, 7, "nöte 🌊"), to_commit(1, -3)))
    [(topic, partitions)] = h.ask(FetchOffsets(GroupId("g"), [(TopicName("t"), [1, 0, 2])])).topics
    assert topic == "t"
    assert [(index, stored and stored[:3]) for index, stored in partitions] == [
        (1, (-3, -1, "")),
        (0, (5, 7, "nöte 🌊")),
        (2, None),
    ]


def test_all_offsets_of_a_group_are_fetched_in_order() -> None:
    """Null topics mean all; offsets of other groups are not returned."""
    h = Harness()
    for topic, partition in (("b", 1), ("a", 10), ("a", 9), ("b", 0)):
        h.commit("g", topic, partition, partition + 100)
    h.commit("other", "c")
    fetched = h.ask(FetchOffsets(GroupId("g"), None)).topics
    assert [(topic, [(one, stored.offset) for one, stored in found]) for topic, found in fetched] == [
        ("a", [(9, 109), (10, 110)]),
        ("b", [(0, 100), (1, 101)]),
    ]
    assert h.ask(FetchOffsets(GroupId("nobody"), None)).topics == []


def test_the_same_partition_twice_keeps_the_last() -> None:
    """Both are recorded in order, and neither is refused, as observed in Kafka 4.3.1."""
    h = Harness()
    assert h.ask(commit(to_commit(0, 5), to_commit(0, 3))) == CommitResult(NONE)
    assert h.offset("g") == 3


METADATA = [
    # limit, metadata, whether it is too long
    (4, "abcd", False),
    (4, "abcde", True),
    (4, "🌊🌊", False),
    (4, "🌊🌊a", True),
    (4, "ßßßß", False),
    (0, "", False),
    (0, "a", True),
    (100_000, "a" * 32_767, False),
    (100_000, "a" * 32_768, True),
    (100_000, "ß" * 16_384, True),
]


@pytest.mark.parametrize(("limit", "metadata", "is_too_long"), METADATA)
def test_metadata_is_limited_in_utf_16_units(limit: int, metadata: str, is_too_long: bool) -> None:
    """The limit also includes what a record can hold; only the partition in question fails (R3.2)."""
    h = Harness(offset_metadata_max_bytes=str(limit))
    result = h.ask(commit(to_commit(0, 5), to_commit(1, 6, metadata=metadata), to_commit(2, 7)))
    assert result.error == NONE
    assert result.too_large == (frozenset({(0, 1)}) if is_too_long else frozenset())
    assert [h.offset("g", partition=one) for one in range(3)] == [5, None if is_too_long else 6, 7]


def test_a_commit_of_nothing_makes_no_group() -> None:
    """Neither without topics nor when every partition fails, as observed in Kafka 4.3.1."""
    h = Harness(offset_metadata_max_bytes="1")
    h.ask(CommitOffsets(GroupId("g"), []))
    h.ask(commit(to_commit(metadata="too long")))
    assert h.ask(ListGroups()).groups == ()


def test_a_commit_is_one_batch() -> None:
    """All partitions or none: one command, one set of records (R3.7)."""
    h = Harness()
    h.ask(commit(*(to_commit(one, one) for one in range(500))))
    assert len(h.batches) == 1
    assert sum(map(record_count, h.batches[0])) == 500


@pytest.mark.parametrize("metadata", ["", "short", "much too long"])
@pytest.mark.parametrize("retention_ms", [-1, 1000])
def test_columns_are_committed_like_their_partitions(metadata: str, retention_ms: int) -> None:
    """A wide commit in columns has the same answer and the same offsets as single partitions."""
    one_by_one, in_columns = (Harness(offset_metadata_max_bytes="5") for _ in range(2))
    numbers = np.arange(20)
    columns = OffsetColumns(numbers, numbers * 3, numbers - 1, metadata)

    def wide(partitions: list[OffsetToCommit] | OffsetColumns) -> CommitOffsets:
        topics = [(TopicName("t"), partitions), (TopicName("u"), [to_commit(1, 7)])]
        return CommitOffsets(GroupId("g"), topics, retention_ms=retention_ms)

    assert in_columns.ask(wide(columns)) == one_by_one.ask(wide(columns.each()))
    fetch = FetchOffsets(GroupId("g"), None)
    assert in_columns.ask(fetch) == one_by_one.ask(fetch)
    assert in_columns.log == one_by_one.log


@pytest.mark.parametrize(("retention_ms", "expiry"), [(-1, -1), (0, 0), (60_000, 60_000)])
def test_a_retention_of_its_own_becomes_an_expiry(retention_ms: int, expiry: int) -> None:
    """Counted from the commit; -1 means none, as aiokafka sends it (R0.11)."""
    h = Harness()
    h.ask(commit(to_commit(), retention_ms=retention_ms))
    ((key, value),) = h.log
    record = decode(key, value)
    assert isinstance(record, OffsetCommit)
    assert record.commit_timestamp == h.now
    assert record.expire_timestamp == (-1 if expiry == -1 else h.now + expiry)


def test_an_offset_with_an_expiry_has_no_leader_epoch() -> None:
    """Its record has no field for it, and the table has what the record has."""
    h = Harness()
    h.ask(commit(to_commit(0, 5, 3), retention_ms=1000))
    [(_, [(_, stored)])] = h.ask(FetchOffsets(GroupId("g"), None)).topics
    assert stored[:2] == (5, -1)


def test_a_later_commit_takes_the_place_of_all_of_the_earlier_one() -> None:
    """Also its metadata and its expiry time: nothing of the old commit remains."""
    h = Harness()
    h.ask(commit(to_commit(0, 5, metadata="note"), retention_ms=1000))
    h.ask(commit(to_commit(0, 6)))
    [(_, [(_, stored)])] = h.ask(FetchOffsets(GroupId("g"), None)).topics
    assert (stored.offset, stored.metadata, stored.expire_timestamp) == (6, "", -1)


def test_offsets_survive_a_crash() -> None:
    """With all their fields (R3.4)."""
    h = Harness()
    h.ask(commit(to_commit(0, 5, 3, "note"), to_commit(1, 6)))
    before = h.ask(FetchOffsets(GroupId("g"), None))
    h.reload()
    assert h.ask(FetchOffsets(GroupId("g"), None)) == before

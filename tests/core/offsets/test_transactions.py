"""Offsets committed in transactions: they wait for the end of their transaction, as Kafka's do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
from tests.columns import column_batch
from tests.core.harness import NONE, Harness, join

from headgate.core.classic.state import ClassicState
from headgate.core.commands import DeleteGroup, DeleteTopicOffsets, ListGroups
from headgate.core.contract import Producer
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteOffsets,
    FetchedColumns,
    FetchesAgain,
    FetchOffsets,
    OffsetColumns,
    RepeatedFetch,
)
from headgate.core.offsets.pending import PendingOffsets
from headgate.core.offsets.pending_holders import Holders, Place
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change, ColumnBatch, OffsetBatch, OffsetCommit, RecordShape

G, T = GroupId("g"), TopicName("t")


def stable_fetch(h: Harness, *partitions: int, group_id: str = "g", topic: str = "t") -> Any:
    """Fetch stable offsets; all of them without partitions."""
    topics = [(TopicName(topic), list(partitions))] if partitions else None
    return h.ask(FetchOffsets(GroupId(group_id), topics, require_stable=True))


def test_an_offset_counts_when_its_transaction_is_committed() -> None:
    """Until then it is pending: fetches find the offset before, and stable fetches none."""
    h = Harness()
    h.commit("g", offset=3)
    assert h.commit_in(7, offset=5).error is NONE
    assert h.offset("g") == 3
    assert stable_fetch(h, 0).unstable == {"t": {0}}
    assert h.end(7) is NONE
    assert h.offset("g") == 5
    assert not stable_fetch(h, 0).unstable


def test_an_aborted_offset_never_counts() -> None:
    """An abort drops what the producer committed, and nothing else."""
    h = Harness()
    h.commit("g", offset=3)
    h.commit_in(7, offset=5)
    h.commit_in(8, offset=6, partition=1)
    h.end(7, is_committed=False)
    h.end(8)
    assert (h.offset("g"), h.offset("g", partition=1)) == (3, 6)


def test_the_last_offset_of_a_transaction_counts() -> None:
    """A producer may commit a partition again, and several groups and topics."""
    h = Harness()
    h.commit_in(7, offset=5, metadata="first")
    h.commit_in(7, offset=4)
    h.commit_in(7, "other", "u", offset=9, metadata="note")
    h.end(7)
    assert (h.offset("g"), h.offset("other", "u")) == (4, 9)


def test_a_later_plain_commit_wins() -> None:
    """The order is that of the log, not that of the markers. The partition stays unstable meanwhile."""
    h = Harness()
    h.commit_in(7, offset=5)
    h.commit("g", offset=3)
    assert stable_fetch(h, 0).unstable == {"t": {0}}
    h.end(7)
    assert h.offset("g") == 3


def wide_batch(count: int) -> OffsetBatch:
    """One commit of many partitions, with a shape for each."""
    shapes = [RecordShape(G, T, partition, -1, "") for partition in range(count)]
    return OffsetBatch(shapes, [2] * count, Millis(2))


def wide_columns(count: int) -> ColumnBatch:
    """One commit of many partitions, in columns."""
    numbers = np.arange(count)
    return column_batch(G, T, numbers, numbers, np.full(count, -1), "", Millis(2))


@pytest.mark.parametrize("wide", [wide_batch, wide_columns])
def test_a_wide_plain_commit_does_not_look_at_each_producer_for_each_partition(
    wide: Callable[[int], Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two thousand producers has one pending offset in the topic."""
    pending = PendingOffsets()
    for producer_id in range(2_000):
        change = OffsetCommit(G, T, producer_id % 5, 1, -1, "", Millis(1))
        pending.put(change, producer_id, Producer(producer_id, 0))
    looked_at = 0
    of_any = Holders.of_any

    def counted(holders: Holders, place: Place, partitions: Collection[int]) -> set[int]:
        nonlocal looked_at
        found = of_any(holders, place, partitions)
        looked_at += len(found)
        return found

    monkeypatch.setattr(Holders, "of_any", counted)
    pending.note(wide(5_000))
    assert looked_at == 2_000
    assert all(one is None for each in pending.by_place[G, T].values() for one in each.values())


def test_of_two_producers_the_later_record_wins() -> None:
    """Whichever transaction ends first."""
    for first, second in ((7, 8), (8, 7)):
        h = Harness()
        h.commit_in(7, offset=5)
        h.commit_in(8, offset=6)
        h.end(first)
        h.end(second)
        assert h.offset("g") == 6


def test_a_marker_of_an_unknown_producer_changes_nothing() -> None:
    """It is written all the same, as in Kafka."""
    h = Harness()
    h.commit_in(7, offset=5)
    assert h.end(9) is NONE
    assert len(h.log) == 2
    assert h.offset("g") is None


def test_an_older_epoch_is_refused() -> None:
    """Neither a zombie's commit nor a late marker touches a newer transaction. A marker may be newer."""
    h = Harness()
    h.commit_in(7, offset=5, epoch=3)
    assert h.commit_in(7, offset=6, epoch=2).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert h.end(7, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert h.end(7, epoch=4) is NONE
    assert h.offset("g") == 5


def test_a_group_of_pending_offsets_is_known() -> None:
    """Kafka creates a simple group with the first pending offset, and keeps it after an abort."""
    h = Harness()
    h.commit_in(7, offset=5)
    assert [group.group_id for group in h.ask(ListGroups()).groups] == ["g"]
    h.end(7, is_committed=False)
    assert [group.group_id for group in h.ask(ListGroups()).groups] == ["g"]


def test_an_unknown_group_refuses_a_generation() -> None:
    """With ILLEGAL_GENERATION, in all versions."""
    h = Harness()
    result = h.commit_in(7, generation=3, member_id="m", knows_group_not_found=False)
    assert result.error is ErrorCode.ILLEGAL_GENERATION
    assert not h.log


def test_metadata_that_is_too_long_refuses_its_partition() -> None:
    """No record is written, and the transaction remains empty."""
    h = Harness(offset_metadata_max_bytes="4")
    result = h.commit_in(7, metadata="longer")
    assert (result.error, result.too_large) == (NONE, {(0, 0)})
    assert not h.log


@pytest.mark.parametrize("metadata", ["", "note"])
def test_a_wide_commit_is_one_transaction(metadata: str) -> None:
    """Columns in, columns out: also across images and logs."""
    h = Harness()
    count = 300
    numbers = np.arange(count)
    texts = metadata if not metadata else [f"{metadata}{one}" for one in range(count)]
    columns = OffsetColumns(numbers, numbers * 3, np.full(count, 2), texts)
    asked = CommitOffsets(G, [(T, columns)], is_transactional=True)
    h.ask(CommitTransactionalOffsets(asked, Producer(7, 0)))
    assert len(stable_fetch(h, *range(count)).unstable["t"]) == count
    h.reload()
    h.end(7)
    fetched = h.ask(FetchOffsets(G, [(T, numbers)])).topics[0][1]
    assert isinstance(fetched, FetchedColumns)
    assert fetched.offsets.tolist() == (numbers * 3).tolist()
    assert list(fetched.metadata) == list(texts)


def test_a_fetch_of_all_stable_offsets_omits_pending_ones() -> None:
    """Partitions with a committed offset are named, those with a pending one only are not."""
    h = Harness()
    h.commit("g", partition=1)
    h.commit_in(7, partition=1)
    h.commit_in(7, partition=2)
    fetched = stable_fetch(h)
    assert [partition for partition, _ in fetched.topics[0][1]] == [1]
    assert fetched.unstable == {"t": {1, 2}}


def test_a_repeated_stable_fetch_notices_a_pending_offset() -> None:
    """What was remembered before is not used while an offset is pending."""
    h = Harness()
    h.commit("g", offset=3)
    again = RepeatedFetch(FetchOffsets(G, [(T, [0])], require_stable=True))
    [before] = h.ask(FetchesAgain([again]))
    assert before.offsets == [3]
    h.commit_in(7, offset=5)
    [during] = h.ask(FetchesAgain([again]))
    assert during.unstable == {"t": {0}}
    h.end(7)
    [after] = h.ask(FetchesAgain([again]))
    assert after.offsets == [5]


def test_a_repeated_stable_fetch_notices_that_a_pending_offset_was_deleted() -> None:
    """Though no committed offset changes: a consumer repeats the fetch until nothing is unstable."""
    h = Harness()
    h.commit("g", offset=3, partition=1)
    again = RepeatedFetch(FetchOffsets(G, [(T, [0])], require_stable=True))
    h.commit_in(7, offset=5)
    for _ in range(2):
        [during] = h.ask(FetchesAgain([again]))
        assert during.unstable == {"t": {0}}
    h.ask(DeleteOffsets(G, [(T, [0])]))
    [after] = h.ask(FetchesAgain([again]))
    assert not getattr(after, "unstable", None)


# --- removal ---


def test_a_deletion_kills_pending_offsets() -> None:
    """OffsetDelete removes those of its partitions, whatever the transaction does afterwards."""
    h = Harness()
    h.commit("g", offset=3)
    for partition in (0, 1, 2):
        h.commit_in(7, offset=5, partition=partition)
    h.ask(DeleteOffsets(G, [(T, [0, 1, 1, 9])]))
    assert stable_fetch(h, 0, 1, 2).unstable == {"t": {2}}
    h.end(7)
    assert [h.offset("g", partition=partition) for partition in (0, 1, 2)] == [None, None, 5]


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_a_deleted_group_does_not_come_back(count: int) -> None:
    """Kafka deletes it over its pending offsets, which then never appear; also in several steps."""
    h = Harness()
    h.replays_each_step = False
    numbers = np.arange(count)
    h.ask(CommitOffsets(G, [(T, OffsetColumns(numbers, numbers, numbers, ""))]))
    for partition in (0, 5, 5000):
        h.commit_in(7, offset=5, partition=partition)
    token = h.send(DeleteGroup(G))
    h.end(7)
    h.advance(1000)
    assert h.answers[token] is NONE
    assert not h.ask(ListGroups()).groups
    h.commit("g", partition=9)
    assert h.offset("g", partition=5) is None


def test_a_group_with_pending_offsets_refuses_deletion_while_it_has_members() -> None:
    """Pending offsets alone do not keep it; members do."""
    h = Harness()
    h.stable_group("m")
    h.commit_in(7, offset=5)
    assert h.ask(DeleteGroup(G)) is ErrorCode.NON_EMPTY_GROUP
    h.end(7)
    assert h.offset("g") == 5


def test_the_pending_offsets_of_a_deleted_topic_are_removed() -> None:
    """Also those of partitions without a committed offset; a topic of the same name has none of them."""
    h = Harness()
    h.commit("g", partition=0)
    for topic in ("t", "u"):
        for partition in (0, 1):
            h.commit_in(7, topic=topic, partition=partition, offset=5)
    assert h.ask(DeleteTopicOffsets(T)) is NONE
    h.end(7)
    assert [h.offset("g", partition=partition) for partition in (0, 1)] == [None, None]
    assert [h.offset("g", "u", partition) for partition in (0, 1)] == [5, 5]


MINUTE = 60_000


def expiring() -> Harness:
    """Return a shard with a retention of ten minutes and a sweep every ten seconds."""
    return Harness(offsets_retention_minutes="10", offsets_retention_check_interval_ms="10000")


def test_a_pending_offset_holds_the_clock_of_its_partition() -> None:
    """The committed offset of the partition does not expire, others do; nor does the group."""
    h = expiring()
    h.commit("g", partition=0, offset=3)
    h.commit("g", partition=1, offset=3)
    h.advance(9 * MINUTE)
    h.commit_in(7, partition=0, offset=5)
    h.commit_in(7, "only-pending", offset=5)
    h.advance(30 * MINUTE)
    assert (h.offset("g", partition=0), h.offset("g", partition=1)) == (3, None)
    assert [group.group_id for group in h.ask(ListGroups()).groups] == ["g", "only-pending"]
    h.end(7, is_committed=False)
    h.advance(MINUTE)
    assert not h.ask(ListGroups()).groups


def test_a_committed_offset_expires_one_retention_after_its_commit() -> None:
    """Its time is that of the commit in the transaction, not that of the marker, as in Kafka."""
    h = expiring()
    h.commit_in(7, offset=5)
    h.advance(9 * MINUTE)
    h.end(7)
    assert h.offset("g") == 5
    h.advance(2 * MINUTE)
    assert h.offset("g") is None


# --- members ---


def test_a_commit_without_a_member_is_accepted() -> None:
    """Early versions cannot name one: also in a group with members, and during a rebalance."""
    h = Harness()
    generation = h.stable_group("m")
    assert h.commit_in(7).error is NONE
    named = h.commit_in(7, member_id="m", generation=generation - 1)
    assert named.error is ErrorCode.ILLEGAL_GENERATION
    assert h.commit_in(7, member_id="x", generation=generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    h.send(join(new_member_id="other", must_know_member_id=False))
    h.advance(1)
    assert h.commit_in(7, member_id="m", generation=generation).error is NONE


def test_a_transactional_commit_does_not_keep_a_member_alive() -> None:
    """It comes from a producer, as in Kafka."""
    h = Harness()
    generation = h.stable_group("m")
    for _ in range(12):
        h.advance(1000)
        h.commit_in(7, member_id="m", generation=generation)
    assert h.state("g") is ClassicState.EMPTY


def test_a_torn_commit_does_not_override_a_pending_offset() -> None:
    """Its values are not restored where an offset is pending: that record would be the later one."""
    h = Harness()
    h.commit("g", offset=3)
    h.commit_in(7, offset=5)
    torn = OffsetCommit(G, T, 0, 9, -1, "", h.now)
    assert h.shard.current_record(torn) is None
    h.end(7)
    assert h.shard.current_record(torn) == OffsetCommit(G, T, 0, 5, -1, "", h.now)


@pytest.mark.interpreted
def test_a_stable_fetch_of_some_partitions_looks_at_these(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the ten thousand pending offsets beside them, of producers with few and with many."""
    h = Harness()
    h.replays_each_step = False
    numbers = np.arange(10_000)
    columns = OffsetColumns(numbers, numbers, np.full(10_000, -1), "")
    asked = CommitOffsets(G, [(T, columns)], is_transactional=True)
    assert h.ask(CommitTransactionalOffsets(asked, Producer(7, 0))).error is NONE
    h.commit_in(8, partition=20_000)
    monkeypatch.setattr(PendingOffsets, "partitions_of", lambda *given: pytest.fail("all were looked at"))
    assert stable_fetch(h, 5, 20_000, 20_001).unstable == {"t": {5, 20_000}}
    assert stable_fetch(h, 20_001).unstable == {}

"""Offsets committed in transactions: they wait for the end of their transaction, as Kafka's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.core.harness import NONE, Harness

from headgate.core.commands import ListGroups
from headgate.core.contract import Producer
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitTransactionalOffsets,
    FetchedColumns,
    FetchesAgain,
    FetchOffsets,
    OffsetColumns,
    RepeatedFetch,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName

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
    assert len(stable_fetch(h, 1).unstable["t"]) == count
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

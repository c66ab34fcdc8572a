"""Pending offsets are found by their partitions, however many transactions are open beside them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.columns import column_batch

from headgate.core.contract import Producer
from headgate.core.offsets.pending import PendingOffsets
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import ColumnBatch, OffsetCommit, OffsetTombstone

G, T = GroupId("g"), TopicName("t")
PLACE = G, T


def commit(partition: int, offset: int = 1) -> OffsetCommit:
    """Return the record of an offset."""
    return OffsetCommit(G, T, partition, offset, -1, "", Millis(1))


def wide_commit(first: int) -> ColumnBatch:
    """Return a commit in columns, of the partitions from the first one to 39."""
    partitions = np.arange(first, 40)
    return column_batch(G, T, partitions, partitions, partitions, "", Millis(1))


def test_a_commit_beside_many_transactions_looks_at_those_of_its_partition() -> None:
    """And so do a tombstone, a question for one partition, and the end of another transaction."""
    pending = PendingOffsets()
    for producer_id in range(20_000):
        pending.put(commit(producer_id % 10_000), producer_id, Producer(producer_id, 0))
    assert pending._holders.of_any(PLACE, (5,)) == {5, 10_005}
    pending.note(commit(5))
    assert pending.by_place[PLACE][5] == {5: None}
    pending.note(OffsetTombstone(G, T, 6))
    assert 6 not in pending.by_place[PLACE]
    assert not pending.has(G, T, 6)
    assert pending.end(7, 30_000, is_committed=True)[0][0] == PLACE
    assert pending._holders.of_any(PLACE, (7,)) == {10_007}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_found_by_partition_is_what_the_producers_have(seed: int) -> None:
    """After any history of single commits, commits in columns, removals, ends and restarts."""
    chance = Random(seed)
    pending = PendingOffsets()
    for position in range(0, 4000, 40):
        producer = Producer(chance.randrange(6), 0)
        partition = chance.randrange(8)
        match chance.choice(("one", "one", "columns", "plain", "removal", "end", "copy")):
            case "one":
                pending.put(commit(partition), position, producer)
            case "columns":
                pending.put(wide_commit(chance.randrange(4)), position, producer)
            case "plain":
                pending.note(commit(partition))
            case "removal":
                pending.note(OffsetTombstone(G, T, partition))
            case "end":
                pending.end(producer.producer_id, position, is_committed=chance.random() < 0.5)
            case _:
                copied, pending = pending.copy(), PendingOffsets()
                for one in copied:
                    pending.restore(*one)
        have = pending.by_place.get(PLACE, {})
        for partition in range(45):
            holding = {one for one, partitions in have.items() if partition in partitions}
            found = pending._holders.of_any(PLACE, (partition,))
            assert holding <= found <= holding | pending._holders.wide(PLACE)
            assert pending.has(G, T, partition) == bool(holding)
        assert pending.partitions_of(G, T) == {one for each in have.values() for one in each}

"""Pending offsets are found by their partitions, however many transactions are open beside them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from tests.columns import column_batch

from headgate.core.contract import Producer
from headgate.core.offsets import pending as pending_offsets
from headgate.core.offsets.pending import PendingOffsets
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change, ColumnBatch, OffsetCommit, OffsetTombstone
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows

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
    assert [place for place, _ in pending.ending(7, 30_000, is_committed=True)] == [PLACE]
    assert pending._holders.of_any(PLACE, (7,)) == {10_007}


def sizes(steps: Iterator[object], pending: PendingOffsets) -> list[int]:
    """Take the steps; return by how many the pending offsets with a value changed in each."""
    found = []
    before = valued(pending)
    for _ in steps:
        now = valued(pending)
        found.append(abs(now - before))
        before = now
    return found


def valued(pending: PendingOffsets) -> int:
    return sum(
        one is not None
        for producers in pending.by_place.values()
        for partitions in producers.values()
        for one in partitions.values()
    )


def test_no_step_changes_more_than_its_part_of_a_hundred_thousand_offsets() -> None:
    """Whether they were committed in columns, in rows or one by one; and so do commits beside them."""
    count, step = 20_000, pending_offsets.STEP
    columns = column_batch(G, T, np.arange(count), np.arange(count), np.arange(count), "", Millis(1))
    rows = OffsetRows(
        [key_prefix(G, T)],
        np.zeros(count, np.int64),
        np.arange(count),
        np.arange(count),
        np.zeros(count, np.int32),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
        dict.fromkeys(range(0, count, 7), "m"),
    )
    pending, producer = PendingOffsets(), Producer(1, 0)
    orders: tuple[tuple[Change, Change], ...] = ((rows, columns), (columns, rows))
    for changed in orders:
        for change in changed:
            assert max(sizes(pending.putting(change, 0, producer), pending)) <= step
        assert valued(pending) == count
        assert sizes(pending.noting(columns), pending) == [step] * (count // step)
        assert valued(pending) == 0
        assert max(sizes(pending.putting(rows, 0, producer), pending)) <= step
        ended = list(pending.ending(1, 10 * count, is_committed=True))
        assert {len(values) for _, values in ended} == {step}
        assert not len(pending) and pending.epoch_of(1) is None and not pending.has_group(G)


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
                list(pending.ending(producer.producer_id, position, is_committed=chance.random() < 0.5))
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

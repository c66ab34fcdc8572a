"""A large window: what a range costs in memory, and that no call has work without a bound."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.core.share.delivering import ACKNOWLEDGED, ALICE, BOB, LIMITS, Delivering, batches_of

from headgate.core.share.partition.acquiring import MOST_RANGES
from headgate.core.share.partition.loading import SLICE
from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    DeliveryLimits,
)
from headgate.core.share.partition.ranges import Piece, Ranges
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.partition.taking_back import MOST_AT_ONCE
from headgate.core.share.partition.undeliverable import MOST_SKIPPED
from headgate.domain.ids import Millis
from headgate.records.share_batches import StateBatches

IN_FLIGHT = 20_000


def _bytes_of(ranges: Ranges) -> int:
    chunks = ranges._chunks
    return sum(sys.getsizeof(chunk) + sum(map(sys.getsizeof, chunk.columns())) + 64 for chunk in chunks)


def _alternating(count: int) -> StateBatches:
    """Every second offset is acknowledged."""
    offsets = np.arange(count) * 2 + 1
    return StateBatches(
        np.stack([offsets, offsets, np.full(count, ACKNOWLEDGED), np.ones(count, np.int64)], 1)
    )


def test_in_flight_ranges_are_small() -> None:
    """Ranges that are acquired, acknowledged and changed out of order cost at most 100 bytes each."""
    group = Delivering(log=batches_of(0, *[2] * IN_FLIGHT))
    group.partition.limits = group.limits = _wide()
    group.fetch_one_by_one(ALICE)
    every_second = [AcknowledgementBatch(at, at, [AcknowledgeType.ACCEPT]) for at in range(0, 10_000, 2)]
    group.settle(group.partition.acknowledge(ALICE, every_second, Millis(0)))
    ranges = group.partition._ranges
    assert len(ranges) > IN_FLIGHT
    assert _bytes_of(ranges) / len(ranges) <= 100


def _wide() -> DeliveryLimits:
    return replace(LIMITS, records=10 * IN_FLIGHT)


def test_million_holes_are_loaded_in_slices() -> None:
    """A state with many acknowledged holes is loaded some thousand batches at a time, and then complete."""
    partition = SharePartition(0, LIMITS)
    holes = 20 * SLICE
    assert sum(1 for _ in partition.load(_alternating(holes))) == 20
    assert (partition.range_count, partition.delivery_complete_count) == (2 * holes, holes)
    assert (partition.start_offset, partition.end_offset) == (0, 2 * holes)


def test_a_fetch_acquires_a_limited_number_of_ranges() -> None:
    """Of many small batches a fetch gets some, in ranges without a hole, and the next fetch those after."""
    group = Delivering(log=batches_of(0, *[1] * (2 * MOST_RANGES + 200)))
    sizes, end = [], 0
    while acquired := group.fetch(ALICE, batch_size=1):
        assert acquired[0].first_offset == end
        assert all(one.last_offset + 1 == after.first_offset for one, after in pairwise(acquired))
        sizes.append(len(acquired))
        end = acquired[-1].last_offset + 1
    assert sizes == [MOST_RANGES, MOST_RANGES, 200]


def test_many_records_that_the_log_lost_are_skipped_in_parts() -> None:
    """Available ranges that compaction removed are archived some at a time; then delivery goes on."""
    ranges = 5 * MOST_SKIPPED
    group = Delivering(log=[(2 * ranges, 2 * ranges + 9)])
    for _ in group.partition.load(_alternating(ranges)):
        pass
    for number in range(1, 5):
        assert group.fetch() == []
        assert group.partition.next_offset() == group.partition.start_offset == 2 * number * MOST_SKIPPED
    assert group.fetch() == [AcquiredRecords(2 * ranges, 2 * ranges + 9, 1)]
    assert (group.partition.start_offset, group.partition.range_count) == (2 * ranges, 1)


def test_many_locks_end_in_parts() -> None:
    """Of what ends at one moment, or what a member had, no call takes back more than the bound."""
    group = Delivering(log=batches_of(0, *[1] * 3_000))
    group.partition.limits = _wide()
    group.fetch_one_by_one(ALICE, 1_500)
    group.fetch_one_by_one(BOB)
    left = group.partition.forget_member(BOB)
    assert left is not None
    first = group.partition.release(left, Millis(0))
    assert first.change is not None
    assert first.rest is not None
    assert group.partition.expire(Millis(30_000)) is not None
    taken_back = sum(1 for one in group.partition.deliveries(0, 2_999) if one.member_id is None)
    assert taken_back == 2 * MOST_AT_ONCE
    group.expire(30_000)
    assert group.partition.next_deadline() is None
    assert group.partition.next_offset() == 0


def test_many_deliveries_that_a_lowered_limit_ends_are_ended_in_parts() -> None:
    """No call archives more ranges than the bound, and the last one leaves none available."""
    group = Delivering(log=batches_of(0, *[1] * 1_500))
    group.partition.limits = _wide()
    group.fetch_one_by_one(ALICE)
    group.expire(30_000)
    group.partition.limits = replace(group.partition.limits, delivery_count=1)
    sizes: list[int] = []
    offset: int | None = 0
    while offset is not None:
        change, offset = group.partition.archive_exhausted(offset, Millis(30_000))
        sizes.append(0 if change is None else sum(last - first + 1 for first, last, _, _ in change.batches))
    assert max(sizes) == MOST_AT_ONCE
    assert sum(sizes) == group.partition.start_offset == 1_500


def test_member_that_returns_while_it_is_released_keeps_what_it_acquires() -> None:
    """Only what its former session had is taken back, and all of that."""
    group = Delivering(log=batches_of(0, *[1] * 1_500))
    group.partition.limits = _wide()
    group.fetch_one_by_one(ALICE)
    left = group.partition.forget_member(ALICE)
    assert left is not None
    first = group.partition.release(left, Millis(0))
    assert first.rest is not None
    (again,) = group.fetch(ALICE, most=1)
    group.log += batches_of(1_500, 1)
    group.release_rest(first.rest)
    (new,) = (one for one in group.partition.deliveries(0, 1_500) if one.member_id is not None)
    assert (new.first_offset, new.member_id) == (again.first_offset, ALICE)
    answer = [AcknowledgementBatch(new.first_offset, new.last_offset, [AcknowledgeType.ACCEPT])]
    group.settle(group.partition.acknowledge(ALICE, answer, Millis(0)))
    group.leave(ALICE)
    assert all(one.member_id is None for one in group.partition.deliveries(0, 1_500))


def test_many_markers_among_the_records_are_archived_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch of a thousand transactions of one record each changes the window a few times."""
    puts = 0
    put = Ranges.put

    def counted(ranges: Ranges, pieces: Sequence[Piece]) -> None:
        nonlocal puts
        puts += 1
        put(ranges, pieces)

    monkeypatch.setattr(Ranges, "put", counted)
    count = 2_000
    group = Delivering(log=batches_of(0, *[1] * count), aborted=[(at, at) for at in range(1, count, 2)])
    group.partition.limits = _wide()
    acquired = group.fetch(ALICE)
    assert [(one.first_offset, one.last_offset) for one in acquired] == [
        (at, at) for at in range(0, count, 2)
    ]
    assert puts < 10
    assert group.partition.delivery_complete_count == count // 2

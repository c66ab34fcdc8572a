"""The worked example of KIP-932 (R4.5), step by step: the window, and what is persisted of each step."""

from __future__ import annotations

from tests.core.share.delivering import (
    ACKNOWLEDGED,
    ACQUIRED,
    ALICE,
    AVAILABLE,
    BOB,
    Delivering,
    batches_of,
)

from headgate.core.share.partition.model import AcknowledgeType, AcquiredRecords, StateChange
from headgate.records.share_batches import StateBatch

LATE = 30_000


def _persisted(group: Delivering) -> list[tuple[int, int, int, int]]:
    """Return what a coordinator has after all writes: the greater count wins, then the state."""
    known: dict[int, tuple[int, int]] = {}
    for change in group.written:
        for first, last, state, count in change.batches:
            for offset in range(first, last + 1):
                known[offset] = max(known.get(offset, (-1, -1)), (count, state))
    start = group.partition.start_offset
    return [
        (offset, offset, state, count) for offset, (count, state) in sorted(known.items()) if offset >= start
    ]


def _change(start: int, complete: int, *batches: StateBatch, write: int = 0) -> StateChange:
    return StateChange(
        write=write, start_offset=start, delivery_complete_count=complete, batches=list(batches)
    )


def test_worked_example() -> None:
    """Every step of the example gives the state and the record that the document shows."""
    group = Delivering(start=100, log=batches_of(100, 10, 10, 1))
    assert (group.partition.start_offset, group.partition.end_offset) == (100, 100)

    # Fetch records 100-109.
    assert group.fetch(up_to=109) == [AcquiredRecords(100, 109, 1)]
    assert (group.partition.start_offset, group.partition.end_offset) == (100, 110)
    assert group.written == []  # a first delivery needs no record (R4.6)

    # Acknowledge 100-109.
    group.accept(100, 109)
    assert (group.partition.start_offset, group.partition.end_offset) == (110, 110)
    assert group.written.pop() == _change(100, 10, StateBatch(100, 109, 2, 1), write=1)

    # Fetch records 110-119.
    assert group.fetch(up_to=119) == [AcquiredRecords(110, 119, 1)]

    # Release 110.
    group.release(110)
    assert group.window() == [(110, 110, AVAILABLE, 1), (111, 119, ACQUIRED, 1)]
    assert group.written[-1] == _change(110, 0, StateBatch(110, 110, 0, 1), write=2)

    # Acknowledge 119. Nothing is persisted of 111-118: they read as available with count 0 (R4.3).
    group.accept(119)
    assert group.window() == [(110, 110, AVAILABLE, 1), (111, 118, ACQUIRED, 1), (119, 119, ACKNOWLEDGED, 1)]
    assert group.written[-1] == _change(110, 1, StateBatch(119, 119, 2, 1), write=3)

    # Fetch records 110, 120: another member, later, so that only the locks of the first one end.
    group.now = 10_000
    assert group.fetch(BOB) == [AcquiredRecords(110, 110, 2), AcquiredRecords(120, 120, 1)]
    assert (group.partition.start_offset, group.partition.end_offset) == (110, 121)

    # Lock timeout elapsed 111, 112: the first member renewed the others.
    assert group.partition.next_deadline() == LATE
    _renew(group, 113, 118)
    group.expire(LATE)
    assert group.window() == [
        (110, 110, ACQUIRED, 2),
        (111, 112, AVAILABLE, 1),
        (113, 118, ACQUIRED, 1),
        (119, 119, ACKNOWLEDGED, 1),
        (120, 120, ACQUIRED, 1),
    ]
    assert group.written[-1] == _change(110, 1, StateBatch(111, 112, 0, 1))
    assert _persisted(group) == [(110, 110, 0, 1), (111, 111, 0, 1), (112, 112, 0, 1), (119, 119, 2, 1)]

    # Acknowledge 113-118.
    group.accept(113, 118)
    assert group.written[-1] == _change(110, 7, StateBatch(113, 118, 2, 1), write=4)

    # Fetch records 111, 112.
    assert group.fetch(BOB) == [AcquiredRecords(111, 112, 2)]
    assert group.window() == [(110, 112, ACQUIRED, 2), (113, 119, ACKNOWLEDGED, 1), (120, 120, ACQUIRED, 1)]

    # Acknowledge 110.
    group.accept(110, member=BOB)
    assert (group.partition.start_offset, group.partition.end_offset) == (111, 121)
    assert group.written[-1] == _change(110, 8, StateBatch(110, 110, 2, 2), write=5)

    # Acknowledge 111, 112.
    group.accept(111, 112, member=BOB)
    assert (group.partition.start_offset, group.partition.end_offset) == (120, 121)
    assert group.window() == [(120, 120, ACQUIRED, 1)]
    assert group.written[-1] == _change(111, 9, StateBatch(111, 112, 2, 2), write=6)
    assert _persisted(group) == []  # the delivery of 120 is not recorded


def _renew(group: Delivering, first: int, last: int) -> None:
    assert group.settle(group.acknowledge(first, last, AcknowledgeType.RENEW, member=ALICE)) == 0

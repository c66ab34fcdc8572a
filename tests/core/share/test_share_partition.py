"""What members see of a share-partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.api.node import drive_request
from tests.core.share.delivering import (
    ACKNOWLEDGED,
    ACQUIRED,
    ALICE,
    ARCHIVED,
    AVAILABLE,
    BOB,
    LIMITS,
    Delivering,
    batches_of,
)

from headgate.core.share.partition.checks import (
    BATCHES_A_STEP,
    TYPES_A_STEP,
    check_batches,
)
from headgate.core.share.partition.loading import InvalidState
from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    AcquireMode,
)
from headgate.core.share.partition.rejections import Cause
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.records.share_batches import DeliveryState, StateBatch

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
RECORD_LIMIT = AcquireMode.RECORD_LIMIT


def _sizes(group: Delivering, fetches: int) -> list[int]:
    """Return how many records each of some fetches acquires, each released before the next one."""
    sizes = []
    for _ in range(fetches):
        acquired = group.fetch()
        sizes.append(sum(one.last_offset - one.first_offset + 1 for one in acquired))
        for one in acquired:
            group.release(one.first_offset, one.last_offset)
    return sizes


def test_often_delivered_batch_shrinks_to_single_records() -> None:
    """With limit 4 a batch of 8 comes as 8, 8, 4, then single records (observed); then it is archived."""
    group = Delivering(limits=replace(LIMITS, delivery_count=4), log=batches_of(0, 8))
    assert _sizes(group, 3) == [8, 8, 4]
    assert _sizes(group, 4) == [1, 1, 1, 1]
    assert group.window() == [(4, 7, AVAILABLE, 2)]
    assert _sizes(group, 5) == [4, 1, 1, 1, 1]
    assert (group.partition.start_offset, group.window()) == (8, [])


@pytest.mark.parametrize(("limit", "sizes"), [(2, [8, 8]), (3, [8, 8, *[1] * 8]), (6, [8, 8, 8, 4, 2, 1])])
def test_isolation_by_limit(limit: int, sizes: list[int]) -> None:
    """Batches shrink from half of the limit on, at least from 2 on; a limit of 2 leaves no room for it."""
    group = Delivering(limits=replace(LIMITS, delivery_count=limit), log=batches_of(0, 8))
    assert _sizes(group, len(sizes)) == sizes


def test_records_on_isolation_come_alone() -> None:
    """Records that were delivered often are not acquired together with others."""
    group = Delivering(limits=replace(LIMITS, delivery_count=4), log=batches_of(0, 2, 2, 2))
    for _ in range(2):
        group.fetch(up_to=1)
        group.release(0, 1)
    assert group.fetch() == [AcquiredRecords(0, 0, 3)]
    assert group.fetch(BOB) == [AcquiredRecords(1, 1, 3)]
    assert group.fetch(BOB) == [AcquiredRecords(2, 5, 1)]


def test_batch_optimized_takes_whole_batches() -> None:
    """The number of records is exceeded up to the end of a batch, and ranges follow the batch size."""
    group = Delivering(log=batches_of(0, 4, 4, 4, 4))
    assert group.fetch(most=5) == [AcquiredRecords(0, 7, 1)]
    group.release(0, 7)
    assert group.fetch(BOB, most=1) == [AcquiredRecords(0, 7, 2)]
    assert group.fetch(BOB, batch_size=3) == [AcquiredRecords(8, 11, 1), AcquiredRecords(12, 15, 1)]


def test_record_limit_is_exact() -> None:
    """In record-limit mode a part of a batch is acquired, and the rest by the next fetch."""
    group = Delivering(log=batches_of(0, 10))
    assert group.fetch(most=3, mode=RECORD_LIMIT) == [AcquiredRecords(0, 2, 1)]
    assert group.fetch(BOB, most=0, mode=RECORD_LIMIT) == []
    assert group.fetch(BOB, most=4, mode=RECORD_LIMIT) == [AcquiredRecords(3, 6, 1)]
    group.release(0, 2)
    assert group.fetch(BOB, most=2, mode=RECORD_LIMIT) == [AcquiredRecords(0, 1, 2)]
    assert group.fetch(BOB, most=9, mode=RECORD_LIMIT) == [AcquiredRecords(2, 2, 2), AcquiredRecords(7, 9, 1)]


def test_window_at_its_limit_takes_available_records_only() -> None:
    """At the limit of records no new ones are acquired, but released ones (F10)."""
    group = Delivering(limits=replace(LIMITS, records=8), log=batches_of(0, 5, 5, 5))
    assert group.fetch() == [AcquiredRecords(0, 9, 1)]
    assert not group.partition.can_acquire()
    assert group.fetch(BOB) == []
    group.release(3, 4)
    assert group.partition.can_acquire()
    assert group.fetch(BOB) == [AcquiredRecords(3, 4, 2)]
    group.accept(0, 2)
    assert group.fetch(BOB) == [AcquiredRecords(10, 14, 1)]


REFUSALS: list[tuple[str, int, int, ErrorCode]] = [
    ("below the start", 0, 4, ErrorCode.NONE),
    ("from below the start", 4, 6, ErrorCode.NONE),
    ("acquired", 5, 9, ErrorCode.NONE),
    ("of another member", 8, 10, ErrorCode.INVALID_RECORD_STATE),
    ("available", 15, 16, ErrorCode.INVALID_RECORD_STATE),
    ("beyond the end", 18, 20, ErrorCode.INVALID_REQUEST),
    ("after the end", 30, 30, ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("which", "first", "last", "error"), REFUSALS, ids=[one[0] for one in REFUSALS])
def test_refusals(which: str, first: int, last: int, error: ErrorCode) -> None:
    """Kafka's error for records that a member may not acknowledge."""
    group = Delivering(log=batches_of(0, 5, 5, 5, 5))
    group.fetch(ALICE, up_to=9)
    group.accept(0, 4)
    group.fetch(BOB, up_to=14)
    group.fetch(ALICE, up_to=19)
    group.release(15, 19)
    before = group.window()
    assert group.accept(first, last) == error
    if error != ErrorCode.NONE:
        assert group.window() == before


def test_empty_window_has_no_acquired_record() -> None:
    """Where nothing was delivered there is nothing to acknowledge."""
    assert Delivering().accept(0, 3) == ErrorCode.INVALID_RECORD_STATE


def test_acknowledgement_is_all_or_nothing() -> None:
    """A bad batch refuses the good ones of the same request (F7)."""
    group = Delivering(log=batches_of(0, 5, 5))
    group.fetch(up_to=4)
    batches = [AcknowledgementBatch(0, 2, [ACCEPT]), AcknowledgementBatch(3, 9, [ACCEPT])]
    assert group.partition.acknowledge(ALICE, batches, Millis(0)).error == ErrorCode.INVALID_REQUEST
    assert group.window() == [(0, 4, ACQUIRED, 1)]


def test_batches_overlapping_by_one_offset() -> None:
    """The second one meets a record that is changing: INVALID_RECORD_STATE (observed)."""
    group = Delivering(log=batches_of(0, 5))
    group.fetch()
    batches = [AcknowledgementBatch(0, 2, [ACCEPT]), AcknowledgementBatch(2, 4, [ACCEPT])]
    assert drive_request(check_batches(batches, may_renew=False)) == (ErrorCode.NONE, False)
    assert group.partition.acknowledge(ALICE, batches, Millis(0)).error == ErrorCode.INVALID_RECORD_STATE
    assert group.window() == [(0, 4, ACQUIRED, 1)]


CHECKS: list[tuple[str, bool, list[tuple[int, int, list[int]]]]] = [
    ("first after last", False, [(3, 2, [1])]),
    ("overlap", False, [(0, 5, [1]), (4, 6, [1])]),
    ("not ascending", False, [(5, 9, [1]), (0, 4, [1])]),
    ("no types", False, [(0, 1, [])]),
    ("fewer types than offsets", False, [(0, 3, [1, 1])]),
    ("more types than offsets", False, [(0, 0, [1, 1])]),
    ("unknown type", True, [(0, 0, [5])]),
    ("negative type", True, [(0, 0, [-1])]),
    ("renew without saying so", False, [(0, 0, [4])]),
]


@pytest.mark.parametrize(("which", "may_renew", "batches"), CHECKS, ids=[one[0] for one in CHECKS])
def test_malformed(which: str, may_renew: bool, batches: list[tuple[int, int, list[int]]]) -> None:
    """A malformed request is refused before any state is looked at (F6)."""
    given = [AcknowledgementBatch(*one) for one in batches]
    assert drive_request(check_batches(given, may_renew=may_renew)).error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("size", [1, TYPES_A_STEP // 3, TYPES_A_STEP, 3 * TYPES_A_STEP])
def test_types_are_looked_at_some_in_each_step(size: int) -> None:
    """Also those of many batches, each of which has few enough for one step."""
    count = 10 * TYPES_A_STEP // size if size > 1 else 3 * BATCHES_A_STEP
    given = [AcknowledgementBatch(at * size, at * size + size - 1, [ACCEPT] * size) for at in range(count)]
    enough = max(count * size // TYPES_A_STEP, count // BATCHES_A_STEP) - 1
    assert sum(1 for _ in check_batches(given, may_renew=True)) >= enough
    assert drive_request(check_batches(given, may_renew=True)) == (ErrorCode.NONE, False)
    given.insert(0, AcknowledgementBatch(0, 0, [RENEW]))
    assert drive_request(check_batches(given, may_renew=True)) == (ErrorCode.NONE, True)


def test_type_for_each_offset() -> None:
    """One type for each offset; what is persisted is coalesced."""
    group = Delivering(log=batches_of(0, 6))
    group.fetch()
    result = group.acknowledge(0, 5, RELEASE, ACCEPT, ACCEPT, GAP, REJECT, RENEW)
    assert result.change is not None
    assert result.change.batches == [
        StateBatch(0, 0, AVAILABLE, 1),
        StateBatch(1, 2, ACKNOWLEDGED, 1),
        StateBatch(3, 4, ARCHIVED, 1),
    ]
    assert result.change.delivery_complete_count == 4
    group.settle(result)
    assert group.window() == [
        (0, 0, AVAILABLE, 1),
        (1, 2, ACKNOWLEDGED, 1),
        (3, 4, ARCHIVED, 1),
        (5, 5, ACQUIRED, 1),
    ]


def test_pending_records_are_nobodys() -> None:
    """Until the write is durable released records are not acquired, and accepted ones not passed (F11)."""
    group = Delivering(log=batches_of(0, 4))
    group.fetch()
    first = group.acknowledge(0, 3, ACCEPT, ACCEPT, RELEASE, RELEASE)
    assert group.fetch(BOB) == []
    assert group.partition.start_offset == 0
    assert group.accept(3) == ErrorCode.INVALID_RECORD_STATE
    group.expire(60_000)
    assert group.partition.start_offset == 0
    group.settle(first)
    assert group.partition.start_offset == 2
    assert group.fetch(BOB) == [AcquiredRecords(2, 3, 2)]


def test_failed_write_gives_the_records_back() -> None:
    """The member has them until its lock ends, also if it ended meanwhile (F17)."""
    group = Delivering(limits=replace(LIMITS, delivery_count=1), log=batches_of(0, 4))
    group.fetch()
    assert group.settle(group.acknowledge(0, 1, ACCEPT), is_durable=False) == ErrorCode.NONE
    assert group.window() == [(0, 3, ACQUIRED, 1)]
    assert group.partition.delivery_complete_count == 0
    assert group.accept(0) == ErrorCode.NONE
    late = group.acknowledge(1, 1, RELEASE)
    group.expire(30_000)
    assert group.window() == [(1, 3, ARCHIVED, 1)]
    group.settle(late, is_durable=False)
    group.expire(30_001)
    assert group.partition.start_offset == 4


def test_renewed_lock_lasts_longer() -> None:
    """Renew starts the lock anew and changes nothing else (F9, KIP-1222)."""
    group = Delivering(log=batches_of(0, 4))
    group.fetch()
    group.now = 20_000
    assert group.acknowledge(1, 2, RENEW) == (ErrorCode.NONE, None)
    group.expire(30_000)
    assert group.window() == [(0, 0, AVAILABLE, 1), (1, 2, ACQUIRED, 1), (3, 3, AVAILABLE, 1)]
    assert group.partition.next_deadline() == 50_000


def test_left_member_gives_back_with_count() -> None:
    """What a closed session had is delivered to others with the next count (F12); a later one is nobody's."""
    group = Delivering(log=batches_of(0, 3, 3))
    group.fetch(ALICE, up_to=2)
    group.fetch(BOB)
    group.leave(ALICE)
    assert group.written[-1].batches == [StateBatch(0, 2, AVAILABLE, 1)]
    assert group.accept(0) == ErrorCode.INVALID_RECORD_STATE
    assert group.fetch(BOB) == [AcquiredRecords(0, 2, 2)]
    group.leave(ALICE)
    assert group.window() == [(0, 2, ACQUIRED, 2), (3, 5, ACQUIRED, 1)]


def test_last_delivery_is_archived() -> None:
    """Release, lock timeout and lost session archive a record that was delivered as often as allowed (F8)."""
    group = Delivering(limits=replace(LIMITS, delivery_count=1), log=batches_of(0, 2, 2, 2, 2))
    for up_to in (1, 3, 5, 7):
        group.fetch(BOB if up_to == 5 else ALICE, up_to=up_to)
        group.now += 100
    group.release(0, 1)
    group.leave(BOB)
    group.expire(30_100)
    assert [one.batches for one in group.written] == [
        [StateBatch(0, 1, ARCHIVED, 1)],
        [StateBatch(4, 5, ARCHIVED, 1)],
        [StateBatch(2, 3, ARCHIVED, 1)],
    ]
    assert group.partition.start_offset == 6


def test_log_start_moves_the_window() -> None:
    """Records below the log start are gone (F13); acknowledging them is no error."""
    group = Delivering(log=batches_of(0, 5, 5))
    group.fetch()
    group.partition.log_start_moved(3)
    assert group.window() == [(3, 9, ACQUIRED, 1)]
    assert group.accept(0, 9) == ErrorCode.NONE
    assert group.written[-1].start_offset == 3
    assert (group.partition.start_offset, group.partition.end_offset) == (10, 10)
    group.partition.log_start_moved(20)
    assert (group.partition.start_offset, group.partition.end_offset) == (20, 20)


def test_compacted_records_are_skipped() -> None:
    """What the log no longer has is archived: released records, and the hole before new ones (F14)."""
    group = Delivering(log=batches_of(0, 5, 5))
    group.fetch()
    group.release(0, 4)
    group.accept(5, 9)
    group.log = [(7, 9), (15, 19)]
    assert group.fetch(up_to=7) == []
    assert group.partition.start_offset == 10
    assert group.fetch() == [AcquiredRecords(15, 19, 1)]
    assert (group.partition.start_offset, group.partition.delivery_complete_count) == (15, 0)


def test_aborted_records_are_skipped() -> None:
    """Batches of aborted transactions are archived and not delivered (F16)."""
    group = Delivering(log=batches_of(0, 4, 4, 4), aborted=[(2, 5), (8, 11)])
    assert group.fetch() == [AcquiredRecords(0, 1, 1), AcquiredRecords(6, 7, 1)]
    assert group.window() == [
        (0, 1, ACQUIRED, 1),
        (2, 5, ARCHIVED, 1),
        (6, 7, ACQUIRED, 1),
        (8, 11, ARCHIVED, 1),
    ]


def test_dead_letters_wait_for_their_copy() -> None:
    """With dead letters a rejected record is archiving, and the start waits for its copy (KIP-1191)."""
    group = Delivering(limits=replace(LIMITS, keeps_dead_letters=True), log=batches_of(0, 4))
    group.fetch()
    group.reject(1, 2)
    group.accept(0)
    (dead,) = group.partition.dead_letters(10)
    assert dead[:4] == (1, 2, DeliveryState.ARCHIVING, 1)
    assert (group.partition.start_offset, group.partition.delivery_complete_count) == (1, 0)
    change = group.partition.dead_letter_copied(1, 2)
    assert change is not None
    assert change.batches == [StateBatch(1, 2, ARCHIVED, 1)]
    assert group.partition.dead_letters(10) == []
    assert not group.partition.may_have_dead_letters
    assert group.window() == [(3, 3, ACQUIRED, 1)]


def test_loaded_state() -> None:
    """Persisted batches come back; what was not persisted between them is available again (R4.3, F14)."""
    group = Delivering(start=110, log=batches_of(100, 10, 10, 10)).load(
        StateBatch(100, 109, ACKNOWLEDGED, 1),
        StateBatch(110, 110, ACKNOWLEDGED, 2),
        StateBatch(112, 112, AVAILABLE, 1),
        StateBatch(119, 119, ARCHIVED, 1),
    )
    assert (group.partition.start_offset, group.partition.end_offset) == (111, 120)
    assert group.partition.delivery_complete_count == 1
    assert group.window() == [
        (111, 111, AVAILABLE, 0),
        (112, 112, AVAILABLE, 1),
        (113, 118, AVAILABLE, 0),
        (119, 119, ARCHIVED, 1),
    ]
    assert group.fetch() == [
        AcquiredRecords(111, 111, 1),
        AcquiredRecords(112, 112, 2),
        AcquiredRecords(113, 118, 1),
        AcquiredRecords(120, 129, 1),
    ]


@pytest.mark.parametrize(
    "batches",
    [
        [StateBatch(0, 5, 2, 1), StateBatch(5, 6, 2, 1)],
        [StateBatch(3, 5, 2, 1), StateBatch(0, 1, 2, 1)],
        [StateBatch(3, 2, 2, 1)],
        [StateBatch(0, 0, ACQUIRED, 1)],
        [StateBatch(0, 0, 9, 1)],
    ],
)
def test_bad_state_is_refused(batches: Sequence[StateBatch]) -> None:
    """Batches that cannot be a state are not loaded."""
    with pytest.raises(InvalidState):
        Delivering().load(*batches)


def test_view_of_deliveries() -> None:
    """Who holds which record, since when and until when, how often delivered, and whether it is changing."""
    group = Delivering(log=batches_of(0, 4), now=5)
    group.fetch()
    group.acknowledge(2, 3, ACCEPT)
    assert [tuple(one) for one in group.partition.deliveries(1, 3)] == [
        (1, 1, ACQUIRED, 1, ALICE, 5, 30_005, False),
        (2, 3, ACKNOWLEDGED, 1, ALICE, 5, 30_005, True),
    ]


def test_a_failed_write_of_a_member_that_has_left() -> None:
    """Its records go to others at once, and not only when the lock ends."""
    group = Delivering(log=batches_of(0, 4))
    group.fetch()
    result = group.acknowledge(1, 2, ACCEPT)
    group.leave(ALICE)
    assert group.window() == [(0, 0, AVAILABLE, 1), (1, 2, ACKNOWLEDGED, 1), (3, 3, AVAILABLE, 1)]
    group.settle(result, is_durable=False)
    assert group.window() == [(0, 3, AVAILABLE, 1)]
    assert group.written[-1].batches == [StateBatch(1, 2, AVAILABLE, 1)]


def test_a_member_that_came_back_has_its_records_of_before_no_more() -> None:
    """A write that fails after it left takes its former records back, not those it has acquired since."""
    group = Delivering(log=batches_of(0, 4))
    group.fetch()
    result = group.acknowledge(1, 2, ACCEPT)
    group.leave(ALICE)
    assert group.fetch() == [AcquiredRecords(0, 0, 2), AcquiredRecords(3, 3, 2)]
    group.settle(result, is_durable=False)
    assert group.window() == [(0, 0, ACQUIRED, 2), (1, 2, AVAILABLE, 1), (3, 3, ACQUIRED, 2)]


def test_a_lowered_limit_archives_what_was_delivered_as_often() -> None:
    """Records that were delivered less often stay, and acquired ones until their member gives them back."""
    batches = [StateBatch(at, at, AVAILABLE, count) for at, count in enumerate((4, 2, 3, 4))]
    group = Delivering(log=batches_of(0, 1, 1, 1, 1)).load(*batches)
    assert group.fetch() == [AcquiredRecords(0, 0, 5)]
    group.partition.limits = replace(LIMITS, delivery_count=3)
    change, more = group.partition.archive_exhausted(0, Millis(0))
    assert change is not None
    assert (change.batches, more) == ([StateBatch(2, 2, ARCHIVED, 3), StateBatch(3, 3, ARCHIVED, 4)], None)
    assert group.window() == [
        (0, 0, ACQUIRED, 5),
        (1, 1, AVAILABLE, 2),
        (2, 2, ARCHIVED, 3),
        (3, 3, ARCHIVED, 4),
    ]
    assert [one.cause for one in group.partition.rejections.between(0, 3)] == [Cause.LIMIT_LOWERED] * 2

"""Records that are opened again by an administrator: in the window, below it, and in the persisted state."""

from __future__ import annotations

from random import Random

import pytest
from tests.core.share.delivering import (
    ACKNOWLEDGED,
    ACQUIRED,
    ALICE,
    ARCHIVED,
    AVAILABLE,
    Delivering,
    batches_of,
)
from tests.core.share.state_life import KEY, StateLife

from headgate.core.share.partition.model import AcquiredRecords, AcquireMode, DeliveryLimits
from headgate.core.share.state.commands import (
    InitializeState,
    ReadState,
    ReadStateResult,
    ReopenState,
    StateResult,
    WriteState,
)
from headgate.domain.errors import ErrorCode
from headgate.records.share_batches import StateBatch
from headgate.records.share_state_model import DeadLetterMark

FAR = 5 * 2**31


def test_records_below_the_window_are_opened_again() -> None:
    """What lies between is acknowledged; they are delivered as for the first time, when that is durable."""
    group = Delivering(start=10, log=batches_of(0, 10, 10))
    group.fetch(up_to=10)
    change = group.partition.reopen([(3, 3), (7, 8)])
    assert (change.start_offset, change.delivery_complete_count) == (3, 4)
    assert group.fetch() == []
    group.partition.reopened([(3, 3), (7, 8)], is_durable=True)
    assert group.fetch(mode=AcquireMode.RECORD_LIMIT, most=2) == [
        AcquiredRecords(3, 3, 1),
        AcquiredRecords(7, 7, 1),
    ]
    assert group.window() == [
        (3, 3, ACQUIRED, 1),
        (4, 6, ACKNOWLEDGED, 0),
        (7, 7, ACQUIRED, 1),
        (8, 8, AVAILABLE, 0),
        (9, 9, ACKNOWLEDGED, 0),
        (10, 19, ACQUIRED, 1),
    ]
    group.accept(3)
    assert group.partition.start_offset == 7


def test_records_that_could_not_be_opened_again_are_as_before() -> None:
    """The start is back where it was."""
    group = Delivering(start=10, log=batches_of(0, 10, 10))
    group.fetch()
    group.partition.reopen([(3, 3)])
    group.partition.reopened([(3, 3)], is_durable=False)
    assert group.window() == [(10, 19, ACQUIRED, 1)]
    assert group.partition.start_offset == 10


def test_the_limit_of_the_window_does_not_count_what_lies_between() -> None:
    """Billions of offsets below do not keep new records back; many of those opened again at once neither."""
    limits = DeliveryLimits(records=100)
    group = Delivering(start=FAR, limits=limits, log=[(0, 0), *batches_of(FAR, *[10] * 20)])
    group.partition.reopen([(0, 0)])
    group.partition.reopened([(0, 0)], is_durable=True)
    assert group.partition.can_acquire()
    assert group.fetch(up_to=0) == [AcquiredRecords(0, 0, 1)]
    got = group.fetch(up_to=FAR + 1_000)
    assert got[0] == AcquiredRecords(FAR, got[0].last_offset, 1)
    assert sum(one.last_offset - one.first_offset + 1 for one in got) == 100
    assert not group.partition.can_acquire()


@pytest.mark.parametrize("seed", range(20))
def test_reopening_beside_a_model(seed: int) -> None:
    """Ranges in and below a window with many ranges: each offset has the state that it must have."""
    random = Random(seed)
    batches = [
        StateBatch(at, at, random.choice((ACKNOWLEDGED, ARCHIVED, AVAILABLE)), random.randrange(1, 4))
        for at in range(100, 100 + random.choice((5, 600, 3_000)))
    ]
    group = Delivering(start=100, log=batches_of(0, 4_000)).load(*batches)
    before = {
        at: (state, count) for first, last, state, count in group.window() for at in range(first, last + 1)
    }
    start = group.partition.start_offset
    closed = [at for at in range(start) if random.random() < 0.1]
    closed += [at for at, (state, _) in before.items() if state == ARCHIVED and random.random() < 0.5]
    ranges = [(at, at) for at in closed]
    group.partition.reopen(ranges)
    group.partition.reopened(ranges, is_durable=True)
    expected = dict.fromkeys(range(closed[0] if closed else start, start), (ACKNOWLEDGED, 0))
    expected |= before
    expected |= dict.fromkeys(closed, (AVAILABLE, 0))
    found = {
        at: (state, count) for first, last, state, count in group.window() for at in range(first, last + 1)
    }
    assert found == expected
    complete = sum(state in (ACKNOWLEDGED, ARCHIVED) for state, _ in found.values())
    assert group.partition.delivery_complete_count == complete


def test_the_persisted_state_is_opened_again() -> None:
    """A snapshot says so, since the higher count would win in an update; the mark of dead letters goes."""
    life = StateLife()
    life.ask(InitializeState(key=KEY, state_epoch=1, start_offset=10))
    mark = DeadLetterMark(KEY.topic_id, 0, 5)
    life.ask(
        WriteState(
            key=KEY,
            state_epoch=1,
            leader_epoch=0,
            start_offset=10,
            batches=[StateBatch(12, 20, ARCHIVED, 5)],
            dead_letters=mark,
        )
    )
    assert _read(life).dead_letters == mark
    command = ReopenState(
        key=KEY, state_epoch=1, leader_epoch=0, delivery_complete_count=2**31 - 1, offsets=[(4, 4), (14, 15)]
    )
    assert life.ask(command) == StateResult()
    state = _read(life)
    assert (state.start_offset, state.dead_letters) == (4, None)
    assert list(state.batches) == [
        StateBatch(4, 4, AVAILABLE, 0),
        StateBatch(5, 9, ACKNOWLEDGED, 0),
        StateBatch(12, 13, ARCHIVED, 5),
        StateBatch(14, 15, AVAILABLE, 0),
        StateBatch(16, 20, ARCHIVED, 5),
    ]


def _read(life: StateLife) -> ReadStateResult:
    result = life.ask(ReadState(key=KEY))
    assert isinstance(result, ReadStateResult)
    return result


@pytest.mark.parametrize(
    ("epochs", "error"),
    [((0, 0), ErrorCode.FENCED_STATE_EPOCH), ((1, -1), ErrorCode.NONE), ((1, 0), ErrorCode.NONE)],
)
def test_a_leader_that_is_out_of_date_opens_nothing(epochs: tuple[int, int], error: ErrorCode) -> None:
    """It is fenced like its writes."""
    life = StateLife()
    life.ask(InitializeState(key=KEY, state_epoch=1, start_offset=10))
    command = ReopenState(
        key=KEY,
        state_epoch=epochs[0],
        leader_epoch=epochs[1],
        delivery_complete_count=0,
        offsets=[(4, 4)],
    )
    assert life.ask(command).error == error
    assert _read(life).start_offset == (10 if error else 4)


def test_members_hold_what_was_opened_again() -> None:
    """It is theirs like any record: released when they leave, archived at the limit."""
    group = Delivering(start=10, limits=DeliveryLimits(delivery_count=2), log=batches_of(0, 10))
    group.partition.reopen([(3, 3)])
    group.partition.reopened([(3, 3)], is_durable=True)
    group.fetch()
    group.leave(ALICE)
    assert group.window()[0] == (3, 3, AVAILABLE, 1)
    group.fetch()
    group.leave(ALICE)
    assert (group.partition.start_offset, group.partition.end_offset) == (10, 10)

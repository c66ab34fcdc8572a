"""What an acknowledgement makes of acquired records: the new deliveries, as values.

| type | new state |
|---|---|
| accept | ACKNOWLEDGED |
| release | AVAILABLE; like reject if the record was delivered as often as allowed |
| reject | ARCHIVED; ARCHIVING if dead letters are kept |
| gap | ARCHIVED |
| renew | ACQUIRED, with a new lock; nothing is persisted |

All but renew are pending until their write is durable (F7). A pending delivery keeps its owner and its lock,
so that the member has the records again if the write fails (F17).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcknowledgeType,
    DeliveryLimits,
)
from headgate.core.share.partition.ranges import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    COMPLETE,
    PENDING,
    Delivery,
    Piece,
)
from headgate.core.share.partition.rejections import Cause, Rejection
from headgate.domain.ids import MemberId, Millis
from headgate.records.share_batches import StateBatch

_REJECTED: Final = frozenset({ARCHIVING, ARCHIVED})


def state_without_member(delivery: Delivery, limits: DeliveryLimits) -> int:
    """Return the state of a record that its member gives back or loses (F8)."""
    return AVAILABLE if delivery.delivery_count < limits.delivery_count else rejected_state(limits)


def rejected_state(limits: DeliveryLimits) -> int:
    """Return the state of a record that is not to be delivered again."""
    return ARCHIVING if limits.keeps_dead_letters else ARCHIVED


def without_member(delivery: Delivery, state: int) -> Delivery:
    """Return a delivery in a state in which no member has the record."""
    if state in COMPLETE:
        return Delivery(state, delivery.delivery_count)
    return Delivery(
        state, delivery.delivery_count, batch_first=delivery.batch_first, batch_size=delivery.batch_size
    )


def settled(delivery: Delivery, *, is_durable: bool) -> Delivery:
    """Return what a pending delivery becomes when its write is durable, or failed."""
    if is_durable:
        return without_member(delivery, delivery.state & ~PENDING)
    return delivery._replace(state=ACQUIRED)


def acknowledged(
    pieces: Sequence[Piece], batch: AcknowledgementBatch, limits: DeliveryLimits, renewed_until: int
) -> list[Piece]:
    """Return what `pieces`, all acquired by the member that sent `batch`, become."""
    new: list[Piece] = []
    runs = _runs(batch, pieces[0].first)
    run_last = pieces[0].first - 1
    acknowledge_type = 0
    for piece in pieces:
        first = piece.first
        by_type: dict[int, Delivery] = {}
        while first <= piece.last:
            if first > run_last:
                run_last, acknowledge_type = next(runs)
            last = min(run_last, piece.last)
            delivery = by_type.get(acknowledge_type)
            if delivery is None:
                delivery = _changed(piece.delivery, acknowledge_type, limits, renewed_until)
                by_type[acknowledge_type] = delivery
            new.append(Piece(first, last, delivery))
            first = last + 1
    return new


def rejected_by(
    member_id: MemberId, batch: AcknowledgementBatch, new: Sequence[Piece], now: Millis
) -> Iterator[Rejection]:
    """Yield what a member ended the delivery of, of the pieces that `acknowledged` returned for its batch."""
    for first, last, delivery in new:
        if delivery.state & ~PENDING not in _REJECTED:
            continue
        types = batch.types
        word = types[0] if len(types) == 1 else types[first - batch.first_offset]
        if word != AcknowledgeType.GAP:
            cause = Cause.REJECTED if word == AcknowledgeType.REJECT else Cause.RELEASED
            yield Rejection(first, last, cause, member_id, now, delivery.delivery_count)


def _runs(batch: AcknowledgementBatch, first: int) -> Iterator[tuple[int, int]]:
    """Yield the types from the offset `first` on, each with the last offset it is meant for."""
    types = batch.types
    if len(types) == 1:
        yield batch.last_offset, types[0]
        return
    begin = first - batch.first_offset
    for i in range(begin + 1, len(types)):
        if types[i] != types[i - 1]:
            yield batch.first_offset + i - 1, types[i - 1]
    yield batch.last_offset, types[-1]


def _changed(
    delivery: Delivery, acknowledge_type: int, limits: DeliveryLimits, renewed_until: int
) -> Delivery:
    match acknowledge_type:
        case AcknowledgeType.RENEW:
            return delivery._replace(deadline=renewed_until)
        case AcknowledgeType.ACCEPT:
            state = ACKNOWLEDGED
        case AcknowledgeType.RELEASE:
            state = state_without_member(delivery, limits)
        case AcknowledgeType.REJECT:
            state = rejected_state(limits)
        case _:
            state = ARCHIVED
    return delivery._replace(state=state | PENDING)


def state_batches(pieces: Iterable[Piece]) -> list[StateBatch]:
    """Return what to persist of changed ranges, in order; equal neighbours become one batch."""
    batches: list[StateBatch] = []
    before_last, before_state, before_count = -1, -1, -1
    for first, last, delivery in pieces:
        state, count = delivery.state & ~PENDING, delivery.delivery_count
        if first == before_last + 1 and state == before_state and count == before_count:
            first = batches.pop().first_offset
        batches.append(StateBatch(first, last, state, count))
        before_last, before_state, before_count = last, state, count
    return batches

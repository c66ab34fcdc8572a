"""AlterShareDeliveries (20008), version 0, Headgate's own: release, archive, redeliver records.

The response is sent when the changes are durable. A dry run returns the same without changes. Members go on
meanwhile: what a plan says may be different a moment later. An acknowledgement of records that were released
or archived is refused with INVALID_RECORD_STATE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.registration import Api
from headgate.api.share_administration import Problem, needs_of, share_partition_of
from headgate.core.share.deliveries import MOST_RANGES, Alteration, AlteredRange, OffsetRange
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.records.share_batches import DeliveryState
from headgate.security.resources import Operation
from headgate.wire.extensions.alter_share_deliveries import (
    AlteredRangeData,
    AlterShareDeliveriesRequest,
    AlterShareDeliveriesResponse,
)

_MADE_AT_ONCE: Final = 200
_NO_STATE: Final = -1


def handle(node: Node, call: Call, request: AlterShareDeliveriesRequest) -> None:
    """Answer for the ranges in the order of their offsets."""
    problem = _why_invalid(request)
    if problem is None:
        call.answer_in_steps(_altered(node, request))
    else:
        error = ErrorCode.INVALID_REQUEST
        call.answer(AlterShareDeliveriesResponse(error_code=error, error_message=problem))


def _why_invalid(request: AlterShareDeliveriesRequest) -> str | None:
    if request.operation not in set(Alteration):
        return f"There is no operation {request.operation}."
    if not request.ranges or len(request.ranges) > MOST_RANGES:
        return f"A request has 1 to {MOST_RANGES} ranges of offsets."
    end = -1
    for one in request.ranges:
        if one.first_offset <= end or one.last_offset < one.first_offset:
            return "Ranges of offsets must be ascending and must not overlap."
        end = one.last_offset
    return None


def _altered(node: Node, request: AlterShareDeliveriesRequest) -> RequestSteps[AlterShareDeliveriesResponse]:
    key = yield from share_partition_of(node, request)
    if isinstance(key, Problem):
        return AlterShareDeliveriesResponse(error_code=key.error, error_message=key.message)
    result = yield from node.shares.administration.alter(
        GroupId(request.group_id),
        key,
        Alteration(request.operation),
        [OffsetRange(one.first_offset, one.last_offset) for one in request.ranges],
        is_dry_run=request.is_dry_run,
    )
    response = AlterShareDeliveriesResponse(
        error_code=result.error, error_message=result.message, ranges=[], next_offset=result.next_offset
    )
    for first in range(0, len(result.ranges), _MADE_AT_ONCE):
        response.ranges += _data(result.ranges[first : first + _MADE_AT_ONCE])
        yield None
    return response


def _data(ranges: Sequence[AlteredRange]) -> list[AlteredRangeData]:
    return [
        AlteredRangeData(
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            before=_number(one.before),
            delivery_count=one.delivery_count,
            after=_number(one.after),
            message=one.message,
        )
        for one in ranges
    ]


def _number(state: DeliveryState | None) -> int:
    return _NO_STATE if state is None else int(state)


API = Api(
    20008,
    "AlterShareDeliveries",
    0,
    0,
    AlterShareDeliveriesRequest,
    AlterShareDeliveriesResponse,
    handle,
    needs=needs_of(Operation.READ, Operation.READ),
)

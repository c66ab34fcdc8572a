"""DescribeOffsetExpiry (20005), version 0, Headgate's own: when each offset of a group will expire.

The group's coordinator answers by the rules of its own sweep. The forecast is that of the moment: members
that join, commits, and changed retentions change it. An unknown group is answered GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_group
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core.commands import DescribeExpiry
from headgate.core.expiry_forecast import NEVER, ExpiryForecast, TopicExpiry
from headgate.core.offsets.expiry import Aging
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.security.resources import Operation
from headgate.wire.extensions.describe_offset_expiry import (
    DescribeOffsetExpiryRequest,
    DescribeOffsetExpiryResponse,
    DescribeOffsetExpiryResponsePartition,
    DescribeOffsetExpiryResponseTopic,
)

AGING: Final = {Aging.HELD: 0, Aging.SINCE_COMMIT: 1, Aging.SINCE_STATE: 2}
"""The number of each way of aging in the protocol."""
NO_TIME: Final = -1
_MOST_AT_ONCE: Final = 500
"""Partitions that one step answers."""


def handle(node: Node, call: Call, request: DescribeOffsetExpiryRequest) -> None:
    """Answer when all offsets are looked at."""

    def answer(response: DescribeOffsetExpiryResponse) -> None:
        if sum(len(topic.partitions) for topic in response.topics) <= _MOST_AT_ONCE:
            call.answer(response)  # a thread costs more than such a response
        else:
            call.answer_aside(lambda: response)

    call.in_steps(_describe(node, GroupId(request.group_id)), answer)


def _describe(node: Node, group_id: GroupId) -> RequestSteps[DescribeOffsetExpiryResponse]:
    forecast: ExpiryForecast | ErrorCode = yield from reply_to(
        partial(node.router.owner_of(group_id).submit, group_id, DescribeExpiry(group_id))
    )
    if isinstance(forecast, ErrorCode):
        return DescribeOffsetExpiryResponse(error_code=forecast)
    group = forecast.group
    response = DescribeOffsetExpiryResponse(
        now_ms=node.system_time(),
        check_interval_ms=node.settings["offsets.retention.check.interval.ms"],
        aging=AGING[group.aging],
        empty_since_ms=group.empty_since,
        retention_ms=max(group.retention_ms, NO_TIME),
        is_own_retention=group.is_own_retention,
    )
    for topic in (yield from forecast.steps):
        yield from _add(response, topic)
    return response


def _add(response: DescribeOffsetExpiryResponse, topic: TopicExpiry) -> RequestSteps[None]:
    told = DescribeOffsetExpiryResponseTopic(name=topic.topic)
    response.topics.append(told)
    for first in range(0, len(topic.partitions), _MOST_AT_ONCE):
        some = slice(first, first + _MOST_AT_ONCE)
        rows = zip(topic.partitions[some].tolist(), topic.expires_at[some].tolist(), strict=True)
        told.partitions += [
            DescribeOffsetExpiryResponsePartition(partition_index=partition, expires_ms=time_or_none(at))
            for partition, at in rows
        ]
        yield None


def time_or_none(at: int) -> int:
    """Return a time as the protocol has it: -1 for never."""
    return NO_TIME if at == NEVER else at


API = Api(
    20005,
    "DescribeOffsetExpiry",
    0,
    0,
    DescribeOffsetExpiryRequest,
    DescribeOffsetExpiryResponse,
    handle,
    needs=of_group(Operation.DESCRIBE),
)

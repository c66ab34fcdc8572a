"""ListExpiringGroups (20006), version 0, Headgate's own: the groups whose offsets will expire soon.

The answer has groups without members only: their offsets expire because nobody uses them. Groups that change
while the list is made may be left out.
"""

from __future__ import annotations

from functools import partial

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.k20005_describe_offset_expiry import time_or_none
from headgate.api.needs import of_cluster
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core.commands import ListExpiring
from headgate.core.expiry_forecast import NEVER, ForecastSteps, GroupForecast
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.wire.extensions.list_expiring_groups import (
    ExpiringGroup,
    ListExpiringGroupsRequest,
    ListExpiringGroupsResponse,
)


def handle(node: Node, call: Call, request: ListExpiringGroupsRequest) -> None:
    """Answer with all such groups, or with the error of a shard that cannot answer."""
    call.answer_in_steps(_list(node, request.within_ms))


def _list(node: Node, within_ms: int) -> RequestSteps[ListExpiringGroupsResponse]:
    now = node.system_time()
    until = NEVER - 1 if within_ms < 0 else min(now + within_ms, NEVER - 1)
    response = ListExpiringGroupsResponse(now_ms=now)
    for shard in range(node.coordinator.shard_count):
        steps: ForecastSteps | ErrorCode = yield from reply_to(
            partial(node.coordinator.submit_to, shard, ListExpiring())
        )
        if isinstance(steps, ErrorCode):
            return ListExpiringGroupsResponse(error_code=steps)
        for forecast in steps:
            if forecast is not None and forecast.first_at <= until:
                response.groups.append(_listed(forecast))
            yield None
    return response


def _listed(forecast: GroupForecast) -> ExpiringGroup:
    group = forecast.group
    return ExpiringGroup(
        group_id=group.group_id,
        empty_since_ms=group.empty_since,
        retention_ms=group.retention_ms,
        is_own_retention=group.is_own_retention,
        offset_count=forecast.offset_count,
        first_expiry_ms=forecast.first_at,
        last_expiry_ms=time_or_none(forecast.last_at),
    )


API = Api(
    20006,
    "ListExpiringGroups",
    0,
    0,
    ListExpiringGroupsRequest,
    ListExpiringGroupsResponse,
    handle,
    needs=of_cluster(Operation.DESCRIBE),
)

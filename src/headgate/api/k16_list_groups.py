"""ListGroups (16), versions 0-5: list the groups of all shards.

1 has the throttle time, 3 is flexible, 4 returns states and filters by them (KIP-518), 5 returns types and
filters by them (KIP-848). Filters ignore case; a filter with unknown values only matches no group.
"""

from __future__ import annotations

from functools import partial

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_cluster
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core import commands as core
from headgate.core.commands import ListedGroups, ListGroups, ListMoreGroups
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(node: Node, call: Call, request: ListGroupsRequest) -> None:
    """Answer with all groups, or with the error of a shard that cannot answer: never with a part of them.

    Groups created or deleted meanwhile may be included.
    """
    command = ListGroups(frozenset(request.states_filter), frozenset(request.types_filter))
    call.answer_in_steps(_listed(node, command))


def _listed(node: Node, first: ListGroups) -> RequestSteps[ListGroupsResponse]:
    """Ask one shard after the other, each for some groups at a time."""
    response = ListGroupsResponse()
    for shard in range(node.coordinator.shard_count):
        command: ListGroups | ListMoreGroups | None = first
        while command is not None:
            result: ListedGroups | ErrorCode = yield from reply_to(
                partial(node.coordinator.submit_to, shard, command)
            )
            if isinstance(result, ErrorCode):
                return ListGroupsResponse(error_code=result)
            response.groups += map(_listed_group, result.groups)
            command = None if result.rest is None else ListMoreGroups(result.rest)
    return response


def _listed_group(group: core.ListedGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.group_type,
    )


API = Api(
    16,
    "ListGroups",
    0,
    5,
    ListGroupsRequest,
    ListGroupsResponse,
    handle,
    needs=of_cluster(Operation.DESCRIBE),
)

"""ListGroups (16), versions 0-5: the groups of all shards.

1 has the throttle time, 3 is flexible, 4 shows states and filters by them (KIP-518), 5 shows types and
filters by them (KIP-848). Filters ignore case; what they name and nobody has lets nothing pass.
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Api, Call, Node, RequestSteps
from headgate.api.needs import of_cluster
from headgate.core.commands import ListedGroups, ListGroups
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(node: Node, call: Call, request: ListGroupsRequest) -> None:
    """Answer with all groups, or with the error of a shard that cannot tell: never with a part of them."""

    def on_results(results: list[Any]) -> None:
        error = next((result for result in results if isinstance(result, ErrorCode)), ErrorCode.NONE)
        if error:
            call.answer(ListGroupsResponse(error_code=error))
        else:
            call.answer_in_steps(_response(results))

    command = ListGroups(frozenset(request.states_filter), frozenset(request.types_filter))
    node.coordinator.submit_to_all(command, on_results)


def _response(results: list[ListedGroups]) -> RequestSteps[ListGroupsResponse]:
    response = ListGroupsResponse()
    for result in results:
        for group in result.groups:
            yield None
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
            )
    return response


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

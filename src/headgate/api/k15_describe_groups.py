"""DescribeGroups (15), versions 0-6: describe classic groups.

1 has the throttle time, 3 may ask for authorized operations, 4 has group instance ids, 5 is flexible, 6 has
error messages. A group that does not exist is Dead without an error up to 5, GROUP_ID_NOT_FOUND in 6
(KIP-1043). A group named more than once is described once, so that a short request has no endless response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import answer_each
from headgate.api.needs import of_groups
from headgate.api.registration import Api
from headgate.core.classic.commands import DescribedGroup, DescribeGroup
from headgate.core.classic.state import ClassicState
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.security.resources import Operation
from headgate.wire.messages import describe_groups as wire

_NOT_FOUND_SINCE_VERSION = 6

_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_GROUP_OPERATIONS = (
    1 << _READ | 1 << _DELETE | 1 << _DESCRIBE | 1 << _DESCRIBE_CONFIGS | 1 << _ALTER_CONFIGS
)
"""All operations on groups, as a bit field."""
OPERATIONS_NOT_ASKED_FOR = -(2**31)


def handle(node: Node, call: Call, request: wire.DescribeGroupsRequest) -> None:
    """Describe each group once, in the order asked."""
    operations = ALL_GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED_FOR
    group_ids = [GroupId(group_id) for group_id in dict.fromkeys(request.groups)]

    def respond(results: Sequence[Any]) -> RequestSteps[wire.DescribeGroupsResponse]:
        response = wire.DescribeGroupsResponse()
        for group_id, result in zip(group_ids, results, strict=True):
            yield None
            group = yield from _group(group_id, result, call.api_version)
            group.authorized_operations = operations
            response.groups.append(group)
        return response

    answer_each(node, call, group_ids, DescribeGroup, respond)


def _group(
    group_id: GroupId, result: DescribedGroup | ErrorCode, version: int
) -> RequestSteps[wire.DescribedGroup]:
    if isinstance(result, DescribedGroup):
        return (yield from _described(result))
    if result is not ErrorCode.GROUP_ID_NOT_FOUND:
        return wire.DescribedGroup(group_id=group_id, error_code=result)
    dead = wire.DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
    if version >= _NOT_FOUND_SINCE_VERSION:
        dead.error_code = result
        dead.error_message = f"Group {group_id} not found."
    return dead


def _described(group: DescribedGroup) -> RequestSteps[wire.DescribedGroup]:
    members = []
    for member in group.members:
        yield None
        members.append(
            wire.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
        )
    return wire.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=members,
    )


API = Api(
    15,
    "DescribeGroups",
    0,
    6,
    wire.DescribeGroupsRequest,
    wire.DescribeGroupsResponse,
    handle,
    needs=of_groups(Operation.DESCRIBE, "groups"),
)

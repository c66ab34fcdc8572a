"""SyncGroup (14), versions 0-5: the leader sends the assignment, each member receives its part.

1 has the throttle time, 3 the group instance id (KIP-345), 4 is flexible. From 5 the protocol type and name
are required, and must be those of the group (KIP-559).
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.needs import of_group
from headgate.api.registration import Api
from headgate.core.classic.commands import SyncGroup, SyncResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId
from headgate.security.resources import Operation
from headgate.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE_VERSION = 5


def handle(node: Node, call: Call, request: SyncGroupRequest) -> SyncGroupResponse | None:
    """Answer when there is an assignment, or at once with an error."""
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.api_version >= _PROTOCOL_SINCE_VERSION and not names_protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def on_result(result: Any) -> None:
        if isinstance(result, ErrorCode):
            result = SyncResult(error=result)
        call.answer(
            SyncGroupResponse(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )

    instance_id = request.group_instance_id
    command = SyncGroup(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        generation=request.generation_id,
        instance_id=None if instance_id is None else InstanceId(instance_id),
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple(
            (MemberId(assignment.member_id), bytes(assignment.assignment))
            for assignment in request.assignments
        ),
    )
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)
    return None


API = Api(14, "SyncGroup", 0, 5, SyncGroupRequest, SyncGroupResponse, handle, needs=of_group(Operation.READ))

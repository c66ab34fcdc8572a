"""LeaveGroup (13), versions 0-5: remove members from a group.

Up to 2 one member, whose error is the response's; from 3 several, static ones by their instance id, each with
its own error (KIP-345); 1 has the throttle time, 4 is flexible, 5 has a reason (KIP-800).
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.needs import of_group
from headgate.api.registration import Api
from headgate.core.classic.commands import LeaveGroup, LeaveResult, LeavingMember
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId
from headgate.security.resources import Operation
from headgate.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_SEVERAL_MEMBERS_SINCE_VERSION = 3
_LONGEST_REASON = 255
"""Characters of a client's reason that are kept, as in Kafka."""
_MOST_MEMBERS_AT_ONCE = 500
"""A response for more members is encoded in a thread."""


def handle(node: Node, call: Call, request: LeaveGroupRequest) -> None:
    """Answer for each member, or for the only one."""
    has_several = call.api_version >= _SEVERAL_MEMBERS_SINCE_VERSION

    def on_result(result: Any) -> None:
        if isinstance(result, ErrorCode):
            call.answer(LeaveGroupResponse(error_code=result))
        elif len(result.members) > _MOST_MEMBERS_AT_ONCE:
            call.answer_aside(lambda: _several(result))
        elif has_several:
            call.answer(_several(result))
        else:
            first = result.members[0][1] if result.members else ErrorCode.NONE
            call.answer(LeaveGroupResponse(error_code=result.error or first))

    command = LeaveGroup(group_id=GroupId(request.group_id), members=_members(request, has_several))
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


def _members(request: LeaveGroupRequest, has_several: bool) -> tuple[LeavingMember, ...]:
    if not has_several:
        return (LeavingMember(MemberId(request.member_id), None),)
    return tuple(
        LeavingMember(
            MemberId(member.member_id),
            None if member.group_instance_id is None else InstanceId(member.group_instance_id),
            None if member.reason is None else member.reason[:_LONGEST_REASON],
        )
        for member in request.members
    )


def _several(result: LeaveResult) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=result.error,
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=error)
            for member, error in result.members
        ],
    )


API = Api(
    13, "LeaveGroup", 0, 5, LeaveGroupRequest, LeaveGroupResponse, handle, needs=of_group(Operation.READ)
)

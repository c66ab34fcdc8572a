"""JoinGroup (11), versions 0-9: join a classic group, or rejoin it.

0 has one timeout for session and rebalance, 2 the throttle time, from 4 a new dynamic member first gets its
id (KIP-394), 5 has the group instance id (KIP-345), 6 is flexible, 7 returns the protocol type and may return
a null protocol, 8 has the client's reason (KIP-800), 9 may tell a leader to skip the assignment (KIP-814).
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.group_answers import is_too_long
from headgate.api.needs import of_group
from headgate.api.registration import Api
from headgate.core.classic.commands import JoinGroup, JoinResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId
from headgate.security.resources import Operation
from headgate.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

_REBALANCE_TIMEOUT_SINCE_VERSION = 1
_MEMBER_ID_REQUIRED_SINCE_VERSION = 4
_NULL_PROTOCOL_SINCE_VERSION = 7
_SKIP_ASSIGNMENT_SINCE_VERSION = 9
_MOST_MEMBERS_AT_ONCE = 500
"""The response to the leader of a larger group is encoded in a thread."""


def handle(node: Node, call: Call, request: JoinGroupRequest) -> None:
    """Answer when the member is in a generation, or at once with an error."""
    command = _command(node, call, request)
    if is_too_long(command.new_member_id):
        call.answer(_response(JoinResult(error=ErrorCode.UNKNOWN_SERVER_ERROR), call.api_version))
        return

    def on_result(result: Any) -> None:
        if isinstance(result, ErrorCode):
            result = JoinResult(error=result, member_id=command.member_id)
        if len(result.members) > _MOST_MEMBERS_AT_ONCE:
            call.answer_aside(lambda: _response(result, call.api_version))
        else:
            call.answer(_response(result, call.api_version))

    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


def _command(node: Node, call: Call, request: JoinGroupRequest) -> JoinGroup:
    version = call.api_version
    instance_id = request.group_instance_id
    has_rebalance_timeout = version >= _REBALANCE_TIMEOUT_SINCE_VERSION
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    return JoinGroup(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        # As in Kafka, a static member's id begins with its instance id.
        new_member_id=MemberId(request.member_id or node.new_member_id(instance_id or call.client_id)),
        new_consumer_member_id=MemberId(request.member_id or node.new_consumer_member_id()),
        instance_id=None if instance_id is None else InstanceId(instance_id),
        client_id=call.client_id or "",
        client_host=call.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple(protocols.items()),
        must_know_member_id=version >= _MEMBER_ID_REQUIRED_SINCE_VERSION,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_SINCE_VERSION,
    )


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and version < _NULL_PROTOCOL_SINCE_VERSION:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )


API = Api(11, "JoinGroup", 0, 9, JoinGroupRequest, JoinGroupResponse, handle, needs=of_group(Operation.READ))

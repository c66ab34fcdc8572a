"""Heartbeat (12), versions 0-4: stay a member of a classic group, and hear when to join again.

1 has the throttle time, 3 the group instance id (KIP-345), 4 is flexible. While the group is being loaded the
answer is NONE, as in Kafka: sessions begin anew after the load, and an error would only make clients look for
another coordinator.
"""

from __future__ import annotations

from headgate.api.contract import Api, Call, Node
from headgate.core.classic.commands import Heartbeat
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(node: Node, call: Call, request: HeartbeatRequest) -> None:
    """Answer with the error alone."""

    def on_result(error: ErrorCode) -> None:
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE
        call.answer(HeartbeatResponse(error_code=error))

    instance_id = request.group_instance_id
    command = Heartbeat(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        generation=request.generation_id,
        instance_id=None if instance_id is None else InstanceId(instance_id),
    )
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


API = Api(12, "Heartbeat", 0, 4, HeartbeatRequest, HeartbeatResponse, handle)

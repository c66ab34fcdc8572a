"""Heartbeat (12), versions 0-4: keep the session of a classic member, and learn of rebalances.

1 has the throttle time, 3 the group instance id (KIP-345), 4 is flexible. While the group is loading the
answer is NONE, as in Kafka.
"""

from __future__ import annotations

from headgate.api.contract import Call, Node
from headgate.api.heartbeat_messages import classic_command_of, classic_response_of
from headgate.api.heartbeat_repeat import LAST_CLASSIC_VERSION, classic_heartbeat_repeat
from headgate.api.needs import of_group
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(node: Node, call: Call, request: HeartbeatRequest) -> None:
    """Answer with the error code."""

    def on_result(error: ErrorCode) -> None:
        call.answer(classic_response_of(error))

    call.prepared = command = classic_command_of(request)
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


API = Api(
    12,
    "Heartbeat",
    0,
    LAST_CLASSIC_VERSION,
    HeartbeatRequest,
    HeartbeatResponse,
    handle,
    classic_heartbeat_repeat,
    needs=of_group(Operation.READ),
)

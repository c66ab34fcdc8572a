"""FindCoordinator (10), versions 0-6: who coordinates a group. Always this node.

1 adds the type of the key and the error message, 3 is flexible, 4 asks for several keys at once (KIP-699),
5 has no change for us, 6 knows the type "share" (KIP-932). Transactions and share groups are not there yet:
a client that asks for their coordinator gets INVALID_REQUEST and a reason, which it reports at once; a
retriable error would have it ask for ever.
"""

from __future__ import annotations

from headgate.api.contract import Api, Call, Node
from headgate.domain.errors import ErrorCode
from headgate.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP = 0
_REFUSALS = {
    1: "Transactions are not supported by this node.",
    2: "Share groups are not supported by this node.",
}
_SEVERAL_KEYS_SINCE_VERSION = 4
_NO_NODE = -1
_NO_PORT = -1


def handle(node: Node, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Answer with this node, or why there is no such coordinator."""
    is_group = request.key_type == _GROUP
    reason = "" if is_group else _REFUSALS.get(request.key_type, f"Unknown key type {request.key_type}.")
    error = ErrorCode.NONE if is_group else ErrorCode.INVALID_REQUEST
    node_id, host, port = (
        (node.node_id, node.advertised_host, node.advertised_port) if is_group else (_NO_NODE, "", _NO_PORT)
    )
    if call.api_version < _SEVERAL_KEYS_SINCE_VERSION:
        return FindCoordinatorResponse(
            error_code=error, error_message=reason or error.name, node_id=node_id, host=host, port=port
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=reason
            )
            for key in request.coordinator_keys
        ]
    )


API = Api(10, "FindCoordinator", 0, 6, FindCoordinatorRequest, FindCoordinatorResponse, handle)

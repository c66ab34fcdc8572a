"""FindCoordinator (10), versions 0-6: find the coordinator of a group, which is the owner of its shard.

1 adds the type of the key and the error message, 3 is flexible, 4 has several keys (KIP-699), 5 has no
relevant change, 6 adds the type "share" (KIP-932), whose keys are share-partitions: group, topic id and
partition with colons between them. This node is the coordinator of all transactions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.security.authorizer import Need
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType
from headgate.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP = 0
_TRANSACTION = 1
_SHARE = 2
_SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]{1,10}", re.DOTALL)
_REFUSALS = {_SHARE: "The key is no share-partition."}
_RESOURCE_TYPES = {_GROUP: ResourceType.GROUP, _TRANSACTION: ResourceType.TRANSACTIONAL_ID}
_SEVERAL_KEYS_SINCE_VERSION = 4
_NO_NODE = -1
_NO_PORT = -1


def handle(node: Node, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
    """Answer with the owner of each key, or why there is no such coordinator."""
    if call.api_version >= _SEVERAL_KEYS_SINCE_VERSION:
        call.answer_in_steps(_find_each(node, request))
        return None
    found = _find(node, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode(found.error_code).name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find_each(node: Node, request: FindCoordinatorRequest) -> RequestSteps[FindCoordinatorResponse]:
    response = FindCoordinatorResponse()
    for key in request.coordinator_keys:
        yield None
        response.coordinators.append(_find(node, request.key_type, key))
    return response


def _find(node: Node, key_type: int, key: str) -> Coordinator:
    if key_type not in (_GROUP, _TRANSACTION) and not (key_type == _SHARE and _SHARE_KEY.fullmatch(key)):
        return Coordinator(
            key=key,
            node_id=_NO_NODE,
            port=_NO_PORT,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=_REFUSALS.get(key_type, f"Unknown key type {key_type}."),
        )
    owner = node.router.owner_of(GroupId(key))
    return Coordinator(key=key, node_id=owner.node_id, host=owner.host, port=owner.port, error_message="")


def needs(node: Node, call: Call, request: FindCoordinatorRequest) -> Iterator[Need]:
    """Return the needs: DESCRIBE on each group or transactional id."""
    if request.key_type == _SHARE:
        yield Need(Operation.CLUSTER_ACTION, CLUSTER)
    resource_type = _RESOURCE_TYPES.get(request.key_type)
    if resource_type is None:
        return  # there is no such coordinator for any principal
    keys = request.coordinator_keys if call.api_version >= _SEVERAL_KEYS_SINCE_VERSION else (request.key,)
    for key in keys:
        yield Need(Operation.DESCRIBE, Resource(resource_type, key))


API = Api(10, "FindCoordinator", 0, 6, FindCoordinatorRequest, FindCoordinatorResponse, handle, needs=needs)

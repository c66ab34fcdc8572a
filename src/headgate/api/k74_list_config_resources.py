"""ListConfigResources (key 74), versions 0-1: list resources with settings (KIP-1142).

Version 0 asks for client metrics only, of which there are none. In 1 the request names types, and an empty
list means all; an unknown type is UNSUPPORTED_VERSION. Groups are listed if they have overrides.
"""

from __future__ import annotations

from headgate.api.contract import Call, Node
from headgate.api.needs import of_cluster
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.topics.configs import ResourceType
from headgate.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_LISTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(node: Node, call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of every type asked for."""
    if call.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types) or set(_LISTED)
    if not wanted <= set(_LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in _LISTED
            if resource_type in wanted
            for name in _names(node, resource_type)
        ]
    )


def _names(node: Node, resource_type: ResourceType) -> list[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return [topic.name for topic in node.topics.all()]
        case ResourceType.GROUP:
            return node.topics.configured_groups()
        case ResourceType.BROKER:
            return [str(node.node_id)]
        case _:
            # Neither log levels nor client metrics can be set through the protocol.
            return []


API = Api(
    key=74,
    name="ListConfigResources",
    min_version=0,
    max_version=1,
    request_type=ListConfigResourcesRequest,
    response_type=ListConfigResourcesResponse,
    handle=handle,
    needs=of_cluster(Operation.DESCRIBE_CONFIGS),
)

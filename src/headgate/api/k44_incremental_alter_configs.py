"""IncrementalAlterConfigs (key 44), versions 0-1: change single settings of a topic or a group (KIP-339).

Operations are set, delete (back to the default), and for lists append and subtract. A resource's changes
are made together or not at all. The broker takes its settings at start only.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api.config_resources import ConfigResource, alter
from headgate.api.contract import Api, Call, Node
from headgate.domain.errors import ErrorCode
from headgate.topics.configs import Change, altered
from headgate.topics.refusal import Refusal
from headgate.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    node: Node, call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Alter each resource for itself, all of its changes or none."""

    def decide(index: int, resource: ConfigResource) -> Mapping[str, str] | Refusal:
        changes = [
            Change(config.name, config.config_operation, config.value)
            for config in request.resources[index].configs
        ]
        return altered(resource.described, resource.overrides, changes)

    resources = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    outcomes = alter(node, resources, decide, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if refusal is None else refusal.error,
                error_message=None if refusal is None else refusal.message,
                resource_type=resource_type,
                resource_name=name,
            )
            for (resource_type, name), refusal in zip(resources, outcomes, strict=True)
        ]
    )


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    min_version=0,
    max_version=1,
    request_type=IncrementalAlterConfigsRequest,
    response_type=IncrementalAlterConfigsResponse,
    handle=handle,
)

"""IncrementalAlterConfigs (key 44), versions 0-1: change single settings (KIP-339).

The operations are set, delete (return to the default), and for lists append and subtract. The changes of a
resource are made together or not at all. Dynamic settings of the broker can be changed at run time, for this
broker or for all.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api.config_resources import ConfigResource, alter
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import altered_configs
from headgate.api.registration import Api
from headgate.topics.configs import Change
from headgate.topics.refusal import Refusal
from headgate.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(node: Node, call: Call, request: IncrementalAlterConfigsRequest) -> None:
    """Alter each resource independently, all of its changes or none."""
    call.answer_in_steps(_answer(node, call, request))


def _answer(
    node: Node, call: Call, request: IncrementalAlterConfigsRequest
) -> RequestSteps[IncrementalAlterConfigsResponse]:

    def decide(wanted: AlterConfigsResource, resource: ConfigResource) -> Mapping[str, str] | Refusal:
        changes = [Change(config.name, config.config_operation, config.value) for config in wanted.configs]
        return resource.altered(resource.overrides, changes)

    responses = yield from alter(node, call, request, decide, AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(responses=responses)


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    min_version=0,
    max_version=1,
    request_type=IncrementalAlterConfigsRequest,
    response_type=IncrementalAlterConfigsResponse,
    handle=handle,
    needs=altered_configs,
)

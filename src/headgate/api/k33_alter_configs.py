"""AlterConfigs (key 33), versions 0-2: replace all overrides of a topic, a group or a broker.

Settings that the request omits return to their defaults. Kafka keeps the API for old tools;
IncrementalAlterConfigs (44) changes single settings.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api.config_resources import ConfigResource, alter
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import altered_configs
from headgate.api.registration import Api
from headgate.topics.configs import Change, Operation
from headgate.topics.refusal import Refusal
from headgate.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(node: Node, call: Call, request: AlterConfigsRequest) -> None:
    """Alter each resource independently, all of its settings or none."""
    call.answer_in_steps(_answer(node, call, request))


def _answer(node: Node, call: Call, request: AlterConfigsRequest) -> RequestSteps[AlterConfigsResponse]:

    def decide(wanted: AlterConfigsResource, resource: ConfigResource) -> Mapping[str, str] | Refusal:
        changes = [Change(config.name, Operation.SET, config.value) for config in wanted.configs]
        return resource.altered({}, changes)

    responses = yield from alter(node, call, request, decide, AlterConfigsResourceResponse)
    return AlterConfigsResponse(responses=responses)


API = Api(
    key=33,
    name="AlterConfigs",
    min_version=0,
    max_version=2,
    request_type=AlterConfigsRequest,
    response_type=AlterConfigsResponse,
    handle=handle,
    needs=altered_configs,
)

"""DescribeConfigs (key 32), versions 1-4: settings in force, with their sources and documentation.

For topics, groups and the broker. Null or empty keys mean all. A group need not exist: it has the defaults.
Synonyms and documentation (3+) are included on request.
"""

from __future__ import annotations

from headgate.api.config_resources import find_resource
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_configs
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.topics.configs import ConfigValue
from headgate.topics.refusal import Refusal
from headgate.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

MOST_DESCRIBED = 500_000
"""Settings in one response: all of some 10,000 topics. A short request can name any number of groups."""
_TOO_MUCH = Refusal(
    ErrorCode.INVALID_REQUEST, "The request asks for too many settings: ask for fewer resources."
)


def handle(node: Node, call: Call, request: DescribeConfigsRequest) -> None:
    """Describe each resource independently."""
    call.answer_in_steps(_answer(node, request))


def _answer(node: Node, request: DescribeConfigsRequest) -> RequestSteps[DescribeConfigsResponse]:
    response = DescribeConfigsResponse()
    described = 0
    for wanted in request.resources:
        yield None
        result = DescribeConfigsResult(
            error_message="", resource_type=wanted.resource_type, resource_name=wanted.resource_name
        )
        response.results.append(result)
        resource = find_resource(node, wanted.resource_type, wanted.resource_name)
        if isinstance(resource, Refusal):
            result.error_code, result.error_message = resource
            continue
        if described > MOST_DESCRIBED:
            result.error_code, result.error_message = _TOO_MUCH
            continue
        keys = set(wanted.configuration_keys or ())
        result.configs = [
            _describe(config, request) for config in resource.described if not keys or config.name in keys
        ]
        described += len(result.configs)
    return response


def _describe(config: ConfigValue, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
        for synonym in (config.synonyms if request.include_synonyms else ())
    ]
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        config_source=config.source,
        synonyms=synonyms,
        config_type=config.setting.kind.value,
        documentation=config.setting.doc if request.include_documentation else None,
    )


API = Api(
    key=32,
    name="DescribeConfigs",
    min_version=1,
    max_version=4,
    request_type=DescribeConfigsRequest,
    response_type=DescribeConfigsResponse,
    handle=handle,
    needs=of_configs(Operation.DESCRIBE_CONFIGS),
)

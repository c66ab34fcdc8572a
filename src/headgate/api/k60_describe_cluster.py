"""DescribeCluster (key 60), versions 0-2: describe this node, which is broker and controller in one.

From version 1 the request names an endpoint type (KIP-919): this endpoint is a broker's, not a controller's.
From version 2 it may ask for fenced brokers; there are none.
"""

from __future__ import annotations

from headgate.api.contract import Call, Node
from headgate.api.needs import nothing
from headgate.api.registration import Api
from headgate.api.topic_answers import CLUSTER_OPERATIONS, NOT_ASKED
from headgate.domain.errors import ErrorCode
from headgate.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1
_CONTROLLERS = 2


def handle(node: Node, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the node."""
    if request.endpoint_type != _BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id, host=node.advertised_host, port=node.advertised_port
            )
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
    )


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
            endpoint_type=_BROKERS,
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
        endpoint_type=_BROKERS,
    )


API = Api(
    key=60,
    name="DescribeCluster",
    min_version=0,
    max_version=2,
    request_type=DescribeClusterRequest,
    response_type=DescribeClusterResponse,
    handle=handle,
    needs=nothing,
)

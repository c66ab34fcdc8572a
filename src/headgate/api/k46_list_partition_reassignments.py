"""ListPartitionReassignments (key 46), version 0: always empty, as there is one node.

Kafka's TopicCommand sends it before it describes a topic.
"""

from __future__ import annotations

from headgate.api.contract import Call, Node
from headgate.api.needs import of_cluster
from headgate.api.registration import Api
from headgate.security.resources import Operation
from headgate.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    node: Node, call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return an empty list."""
    return ListPartitionReassignmentsResponse(error_message=None)


API = Api(
    key=46,
    name="ListPartitionReassignments",
    min_version=0,
    max_version=0,
    request_type=ListPartitionReassignmentsRequest,
    response_type=ListPartitionReassignmentsResponse,
    handle=handle,
    needs=of_cluster(Operation.DESCRIBE),
)

"""InitProducerId (key 22), versions 0-5: assign an id to an idempotent producer.

Ids are never reused: they come from blocks that are durable before their first id is used. Each is new, with
epoch 0, also for a producer that sends the id it had (3+, KIP-360).

Transactions are not supported yet. A transactional id is answered with UNSUPPORTED_VERSION, which clients
report at once as a fatal error; a missing coordinator would be retried until they time out.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import Need
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType
from headgate.topics.refusal import Refusal
from headgate.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(node: Node, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Assign the next id."""
    if request.transactional_id is not None:
        error = ErrorCode.UNSUPPORTED_VERSION if request.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
    producer_id = node.topics.new_producer_id(node.system_time())
    if isinstance(producer_id, Refusal):
        # A storage error would be fatal to the producer; this one is retriable.
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def needs(node: Node, call: Call, request: InitProducerIdRequest) -> Iterator[Need]:
    """Return the needs: WRITE on the transactional id, or without one IDEMPOTENT_WRITE on the cluster.

    Kafka also grants the latter to principals that may write to some topic, which only the policy knows.
    """
    if request.transactional_id is None:
        yield Need(Operation.IDEMPOTENT_WRITE, CLUSTER)
    else:
        yield Need(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id))


API = Api(
    key=22,
    name="InitProducerId",
    min_version=0,
    max_version=5,
    request_type=InitProducerIdRequest,
    response_type=InitProducerIdResponse,
    handle=handle,
    needs=needs,
)

"""InitProducerId (key 22), versions 0-5: assign an id to an idempotent or transactional producer.

Ids are never reused: they come from blocks that are durable before their first id is used. Without a
transactional id each is new, with epoch 0, also for a producer that sends the id it had (3+, KIP-360).

A transactional id keeps its producer id, and each answer has a higher epoch, which fences the producers
before. A producer that sends its id and epoch (3+) may go on, and is fenced if another one has begun since:
PRODUCER_FENCED from version 4, INVALID_PRODUCER_EPOCH before. An open transaction is aborted first, and the
answer is CONCURRENT_TRANSACTIONS until its markers are written.

Each start of a transactional producer is logged: the line after a producer's own names who fenced it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.transaction_messages import fencing_error, is_bad_id, submit_with_producer_id
from headgate.core.contract import Producer
from headgate.core.transactions.commands import InitProducerId
from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import Need
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType
from headgate.topics.refusal import Refusal
from headgate.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

logger = logging.getLogger(__name__)

_NONE = -1
_FENCED_SINCE = 4


def handle(node: Node, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | None:
    """Assign the next id, or the next epoch of a transactional id."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _new_id(node)
    if is_bad_id(request.transactional_id):
        return _refusal(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= node.settings["transaction.max.timeout.ms"]:
        return _refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    expected = None
    if request.producer_id != _NONE:
        expected = Producer(request.producer_id, request.producer_epoch)
    command = InitProducerId(request.transactional_id, request.transaction_timeout_ms, expected)

    def answer(result: Any) -> None:
        response = _response(call.api_version, result)
        if response.error_code == ErrorCode.NONE:
            _log(call, command.transactional_id, response)
        call.answer(response)

    submit_with_producer_id(node, command, answer)
    return None


def _log(call: Call, transactional_id: str, response: InitProducerIdResponse) -> None:
    fields = {
        "transactional_id": transactional_id,
        "producer_id": response.producer_id,
        "epoch": response.producer_epoch,
        "client": call.client_id,
        "host": call.client_host,
    }
    logger.info("transactional producer started", extra=fields)


def _new_id(node: Node) -> InitProducerIdResponse:
    producer_id = node.topics.new_producer_id(node.system_time())
    if isinstance(producer_id, Refusal):
        # A storage error would be fatal to the producer; this one is retriable.
        return _refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _response(version: int, result: Any) -> InitProducerIdResponse:
    if isinstance(result, ErrorCode):
        return _refusal(result)
    return InitProducerIdResponse(
        error_code=fencing_error(result.error, version, _FENCED_SINCE),
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
    )


def _refusal(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)


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

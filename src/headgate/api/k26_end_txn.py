"""EndTxn (key 26), versions 0-5: commit or abort a producer's transaction.

The answer comes when the decision is durable; the markers are written after that. From version 5 the epoch is
raised, and the answer has the producer id and the epoch of the next transaction (KIP-890). An abort is then
accepted without a transaction. A fenced producer has PRODUCER_FENCED from version 2, INVALID_PRODUCER_EPOCH
before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.transaction_messages import fencing_error, is_bad_id, submit_with_producer_id
from headgate.core.contract import Producer
from headgate.core.transactions.commands import DecideTransaction, ProducerAnswer
from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import Need
from headgate.security.resources import Operation, Resource, ResourceType
from headgate.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_EPOCH_BUMP_SINCE = 5
_WITH_EPOCH_BUMP = 2


def handle(node: Node, call: Call, request: EndTxnRequest) -> EndTxnResponse | None:
    """Decide the outcome of the transaction."""
    if is_bad_id(request.transactional_id):
        return _response(call.api_version, ProducerAnswer(ErrorCode.INVALID_REQUEST))
    command = DecideTransaction(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        _WITH_EPOCH_BUMP if call.api_version >= _EPOCH_BUMP_SINCE else 0,
    )

    def answer(result: Any) -> None:
        call.answer(
            _response(call.api_version, ProducerAnswer(result) if isinstance(result, ErrorCode) else result)
        )

    submit_with_producer_id(node, command, answer)
    return None


def _response(version: int, result: ProducerAnswer) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=fencing_error(result.error, version),
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
    )


def needs(node: Node, call: Call, request: EndTxnRequest) -> Iterator[Need]:
    """Return the need: WRITE on the transactional id."""
    yield Need(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id))


API = Api(
    key=26,
    name="EndTxn",
    min_version=0,
    max_version=5,
    request_type=EndTxnRequest,
    response_type=EndTxnResponse,
    handle=handle,
    needs=needs,
)

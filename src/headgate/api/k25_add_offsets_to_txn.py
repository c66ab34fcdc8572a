"""AddOffsetsToTxn (key 25), versions 0-4: add a group to a producer's transaction before it commits offsets.

What is added is the partition of `__consumer_offsets` with the group, so that the end of the transaction
reaches it. A fenced producer has PRODUCER_FENCED from version 2, INVALID_PRODUCER_EPOCH before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.group_answers import error_of
from headgate.api.needs import group_need
from headgate.api.registration import Api
from headgate.api.transaction_messages import fencing_error, is_bad_id
from headgate.core.contract import Producer
from headgate.core.transactions.commands import AddPartitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId
from headgate.security.authorizer import Need
from headgate.security.resources import Operation, Resource, ResourceType
from headgate.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(node: Node, call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse | None:
    """Add the group's partition to the transaction."""
    if is_bad_id(request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    index = node.coordinator.partition_of(GroupId(request.group_id))
    command = AddPartitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        {GROUP_OFFSETS_TOPIC: frozenset({index})},
    )

    def answer(result: Any) -> None:
        error = fencing_error(error_of(result), call.api_version)
        call.answer(AddOffsetsToTxnResponse(error_code=error))

    node.transactions.submit(request.transactional_id, command, answer)
    return None


def needs(node: Node, call: Call, request: AddOffsetsToTxnRequest) -> Iterator[Need]:
    """Return the needs: WRITE on the transactional id, READ on the group."""
    yield Need(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id))
    yield group_need(Operation.READ, request.group_id)


API = Api(
    key=25,
    name="AddOffsetsToTxn",
    min_version=0,
    max_version=4,
    request_type=AddOffsetsToTxnRequest,
    response_type=AddOffsetsToTxnResponse,
    handle=handle,
    needs=needs,
)

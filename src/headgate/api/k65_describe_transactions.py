"""DescribeTransactions (key 65), version 0: the state of transactional ids, with their open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core.transactions.commands import DescribeTransaction
from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import Need
from headgate.security.resources import Operation, Resource, ResourceType
from headgate.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(node: Node, call: Call, request: DescribeTransactionsRequest) -> None:
    """Describe each transactional id."""
    call.answer_in_steps(_described(node, request))


def _described(
    node: Node, request: DescribeTransactionsRequest
) -> RequestSteps[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for transactional_id in request.transactional_ids:
        state = TransactionState(transactional_id=transactional_id)
        response.transaction_states.append(state)
        if not transactional_id:
            state.error_code = ErrorCode.INVALID_REQUEST
            yield None
            continue
        command = DescribeTransaction(transactional_id)
        found = yield from reply_to(partial(node.transactions.submit, transactional_id, command))
        yield from _fill_in(state, found)
    return response


def _fill_in(state: TransactionState, found: Any) -> RequestSteps[None]:
    if isinstance(found, ErrorCode):
        state.error_code = found
        return
    state.transaction_state = found.state.title
    state.transaction_timeout_ms = found.timeout_ms
    state.transaction_start_time_ms = found.start_timestamp
    state.producer_id = found.producer_id
    state.producer_epoch = found.producer_epoch
    for topic, partitions in sorted(found.partitions.items()):
        yield None
        state.topics.append(TopicData(topic=topic, partitions=sorted(partitions)))


def needs(node: Node, call: Call, request: DescribeTransactionsRequest) -> Iterator[Need]:
    """Return the needs: DESCRIBE on each transactional id."""
    for transactional_id in request.transactional_ids:
        yield Need(Operation.DESCRIBE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id))


API = Api(
    key=65,
    name="DescribeTransactions",
    min_version=0,
    max_version=0,
    request_type=DescribeTransactionsRequest,
    response_type=DescribeTransactionsResponse,
    handle=handle,
    needs=needs,
)

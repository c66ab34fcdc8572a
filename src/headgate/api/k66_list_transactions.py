"""ListTransactions (key 66), versions 0-2: list the transactional ids of all shards.

Filters: states, by Kafka's names with their case, and producer ids; from 1 a duration in ms, which admits
transactions that started longer ago, and ids that never started one; from 2 a regular expression (RE2's
syntax) that matches the whole transactional id. Unknown states are returned as such, and match nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_cluster
from headgate.api.registration import Api
from headgate.core.topic_pattern import InvalidPattern, compile_pattern
from headgate.core.transactions.commands import ListedTransactions, ListTransactions, TransactionFilter
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.records.transactions import TransactionState
from headgate.security.resources import Operation
from headgate.wire.messages import list_transactions as messages
from headgate.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_STATES: Final = {state.title: state for state in TransactionState}


def handle(node: Node, call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse | None:
    """Answer with all ids that the filters admit, or with the error of a shard that cannot answer."""
    matches = _matcher(request.transactional_id_pattern)
    if isinstance(matches, InvalidPattern):
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    known = [_STATES[name] for name in request.state_filters if name in _STATES]
    unknown = [name for name in request.state_filters if name not in _STATES]
    wanted = TransactionFilter(
        states=frozenset(known),
        are_states_given=bool(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        matches=matches,
    )
    call.answer_in_steps(_listed(node, wanted, unknown))
    return None


def _matcher(text: str | None) -> Callable[[str], bool] | InvalidPattern | None:
    if not text:
        return None
    pattern = compile_pattern(text)
    if isinstance(pattern, InvalidPattern):
        return pattern
    return lambda transactional_id: pattern.matches(TopicName(transactional_id))


def _listed(
    node: Node, wanted: TransactionFilter, unknown: list[str]
) -> RequestSteps[ListTransactionsResponse]:
    """Ask one shard after the other, each for some ids at a time."""
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    for shard in range(node.transactions.shard_count):
        rest: Iterator[str] | None = None
        while True:
            there: Future[Any] = Future()
            node.transactions.submit_to(shard, ListTransactions(wanted, rest), there.set_result)
            yield there if not there.done() else None
            result: ListedTransactions | ErrorCode = there.result()
            if isinstance(result, ErrorCode):
                return ListTransactionsResponse(error_code=result)
            response.transaction_states += [
                messages.TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state.title,
                )
                for one in result.transactions
            ]
            rest = result.rest
            if rest is None:
                break
    return response


API = Api(
    key=66,
    name="ListTransactions",
    min_version=0,
    max_version=2,
    request_type=ListTransactionsRequest,
    response_type=ListTransactionsResponse,
    handle=handle,
    needs=of_cluster(Operation.DESCRIBE),
)

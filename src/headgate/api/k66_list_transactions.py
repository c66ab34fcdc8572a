"""ListTransactions (key 66), versions 0-2: list the transactional ids of all shards.

Filters: states, by Kafka's names with their case, and producer ids; from 1 a duration in ms, which admits
transactions that started longer ago, and ids that never started one; from 2 a regular expression (RE2's
syntax) that matches the whole transactional id. Unknown states are returned as such, and match nothing.

An id may have 32 KB, so that one match takes half a second at worst: ids are matched in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_cluster
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core.topic_pattern import InvalidPattern, TopicPattern, compile_pattern
from headgate.core.transactions.commands import ListedTransactions, ListTransactions, TransactionFilter
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.records.transactions import TransactionMetadata, TransactionState
from headgate.security.resources import Operation
from headgate.wire.messages import list_transactions as messages
from headgate.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_STEPS_AT_ONCE: Final = 500_000
"""Steps of matching after which the thread is left to others: 10 ms at worst."""
_STATES: Final = {state.title: state for state in TransactionState}


def handle(node: Node, call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse | None:
    """Answer with all ids that the filters admit, or with the error of a shard that cannot answer."""
    text = request.transactional_id_pattern
    pattern = compile_pattern(text) if text else None
    if isinstance(pattern, InvalidPattern):
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    known = [_STATES[name] for name in request.state_filters if name in _STATES]
    unknown = [name for name in request.state_filters if name not in _STATES]
    wanted = TransactionFilter(
        states=frozenset(known),
        are_states_given=bool(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
    )
    call.answer_in_steps(_listed(node, wanted, unknown, pattern))
    return None


def _listed(
    node: Node, wanted: TransactionFilter, unknown: list[str], pattern: TopicPattern | None
) -> RequestSteps[ListTransactionsResponse]:
    """Ask one shard after the other, each for some ids at a time."""
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    for shard in range(node.transactions.shard_count):
        rest: Iterator[str] | None = None
        while True:
            result: ListedTransactions | ErrorCode = yield from reply_to(
                partial(node.transactions.submit_to, shard, ListTransactions(wanted, rest))
            )
            if isinstance(result, ErrorCode):
                return ListTransactionsResponse(error_code=result)
            found: Sequence[TransactionMetadata] = result.transactions
            if pattern is not None:
                found = yield from _matching(pattern, found)
            response.transaction_states += [
                messages.TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state.title,
                )
                for one in found
            ]
            rest = result.rest
            if rest is None:
                break
    return response


def _matching(
    pattern: TopicPattern, found: Sequence[TransactionMetadata]
) -> RequestSteps[Sequence[TransactionMetadata]]:
    """Return those whose ids match. A thread has some at a time, or one long id."""
    kept: list[TransactionMetadata] = []
    some: list[TransactionMetadata] = []
    steps = 0
    for one in found:
        some.append(one)
        steps += pattern.steps(TopicName(one.transactional_id))
        if steps >= _STEPS_AT_ONCE:
            yield partial(_keep, pattern, some, kept)
            some, steps = [], 0
    if some:
        yield partial(_keep, pattern, some, kept)
    return kept


def _keep(
    pattern: TopicPattern, some: Iterable[TransactionMetadata], kept: list[TransactionMetadata]
) -> None:
    kept += [one for one in some if pattern.matches(TopicName(one.transactional_id))]


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

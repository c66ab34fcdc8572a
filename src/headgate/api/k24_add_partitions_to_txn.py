"""AddPartitionsToTxn (key 24), versions 0-5: add partitions to a producer's transaction, before its records.

Versions 0-3 are of clients: one transaction, and one error for all of its partitions. If a partition does not
exist, the others are OPERATION_NOT_ATTEMPTED, and none is added. 4 and 5 are of brokers (KIP-890): several
transactions, each to be added, or only to be verified: a partition that is missing is TRANSACTION_ABORTABLE.
A fenced producer has PRODUCER_FENCED from version 2, INVALID_PRODUCER_EPOCH before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import topic_needs
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.api.transaction_messages import fencing_error, is_bad_id
from headgate.core.contract import Producer
from headgate.core.transactions.commands import AddPartitions, VerifiedPartitions, VerifyPartitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.security.authorizer import Need
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType
from headgate.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_OF_BROKERS_SINCE = 4
_WITH_EPOCH_BUMP = 2
_AT_ONCE = 200
"""Partitions handled in one step."""
_Errors = dict[tuple[str, int], ErrorCode]


def handle(node: Node, call: Call, request: AddPartitionsToTxnRequest) -> None:
    """Add or verify the partitions of each transaction."""
    call.answer_in_steps(_answered(node, call.api_version, request))


def _answered(
    node: Node, version: int, request: AddPartitionsToTxnRequest
) -> RequestSteps[AddPartitionsToTxnResponse]:
    if version >= _OF_BROKERS_SINCE:
        results = []
        for transaction in request.transactions:
            topics = yield from _result_of(node, version, transaction)
            results.append(
                AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
            )
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    topics = yield from _result_of(node, version, only)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _result_of(
    node: Node, version: int, transaction: AddPartitionsToTxnTransaction
) -> RequestSteps[list[AddPartitionsToTxnTopicResult]]:
    """Return the errors of one transaction's partitions."""
    partitions: dict[TopicName, set[int]] = {}
    errors: _Errors = {}
    for topic in transaction.topics:
        yield None
        name = TopicName(topic.name)
        asked = partitions.setdefault(name, set())
        for some in _some_at_a_time(topic.partitions):
            yield None
            errors.update(_unknown(node, version, name, some))
            asked.update(some)
    if errors:
        error_of_all = ErrorCode.OPERATION_NOT_ATTEMPTED
    elif is_bad_id(transaction.transactional_id):
        error_of_all = ErrorCode.INVALID_REQUEST
    else:
        result = yield from _asked(node, _command(version, transaction, partitions))
        error_of_all = result if isinstance(result, ErrorCode) else result.error
        if isinstance(result, VerifiedPartitions):
            errors = dict.fromkeys(result.missing, ErrorCode.TRANSACTION_ABORTABLE)
    error_of_all = fencing_error(error_of_all, version)
    return (yield from _topic_results(transaction, errors, error_of_all))


def _some_at_a_time(indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(indexes), _AT_ONCE):
        yield indexes[first : first + _AT_ONCE]


def _unknown(
    node: Node, version: int, name: TopicName, indexes: Iterable[int]
) -> Iterator[tuple[tuple[str, int], ErrorCode]]:
    """Return the partitions of a topic that cannot be added."""
    topic = node.topics.by_name(name)
    count = 0 if topic is None else topic.partition_count
    is_forbidden = topic is not None and topic.is_internal and version < _OF_BROKERS_SINCE
    for index in indexes:
        if is_forbidden:
            yield (name, index), ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not 0 <= index < count:
            yield (name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _command(
    version: int, transaction: AddPartitionsToTxnTransaction, asked: dict[TopicName, set[int]]
) -> AddPartitions | VerifyPartitions:
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    partitions = {topic: frozenset(indexes) for topic, indexes in asked.items() if indexes}
    if transaction.verify_only:
        return VerifyPartitions(transaction.transactional_id, producer, partitions)
    transaction_version = _WITH_EPOCH_BUMP if version >= _OF_BROKERS_SINCE else 0
    return AddPartitions(transaction.transactional_id, producer, partitions, transaction_version)


def _asked(node: Node, command: AddPartitions | VerifyPartitions) -> RequestSteps[Any]:
    return (yield from reply_to(partial(node.transactions.submit, command.transactional_id, command)))


def _topic_results(
    transaction: AddPartitionsToTxnTransaction, errors: _Errors, error_of_others: ErrorCode
) -> RequestSteps[list[AddPartitionsToTxnTopicResult]]:
    results = []
    for topic in transaction.topics:
        yield None
        result = AddPartitionsToTxnTopicResult(name=topic.name)
        results.append(result)
        for some in _some_at_a_time(topic.partitions):
            yield None
            result.results_by_partition += [
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=errors.get((topic.name, index), error_of_others),
                )
                for index in some
            ]
    return results


def deny(node: Node, call: Call, request: AddPartitionsToTxnRequest, error: ErrorCode) -> None:
    """Refuse the whole request: with an error of each partition, or of a broker's request as a whole."""
    if call.api_version >= _OF_BROKERS_SINCE:
        call.answer(AddPartitionsToTxnResponse(error_code=error))
        return
    call.answer_in_steps(_denied(request, error))


def _denied(request: AddPartitionsToTxnRequest, error: ErrorCode) -> RequestSteps[AddPartitionsToTxnResponse]:
    transaction = AddPartitionsToTxnTransaction(topics=request.v3_and_below_topics)
    topics = yield from _topic_results(transaction, {}, error)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def needs(node: Node, call: Call, request: AddPartitionsToTxnRequest) -> Iterator[Need]:
    """Return the needs: WRITE on the transactional id and each topic, or of a broker CLUSTER_ACTION."""
    if call.api_version >= _OF_BROKERS_SINCE:
        yield Need(Operation.CLUSTER_ACTION, CLUSTER)
        return
    transactional_id = request.v3_and_below_transactional_id
    yield Need(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id))
    yield from topic_needs(node, Operation.WRITE, request.v3_and_below_topics)


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    min_version=0,
    max_version=5,
    request_type=AddPartitionsToTxnRequest,
    response_type=AddPartitionsToTxnResponse,
    handle=handle,
    needs=needs,
    deny=deny,
)

"""WriteTxnMarkers (key 27), versions 1-2: end transactions in partitions directly.

An administrator ends a hanging transaction with it (Admin.abortTransaction): the coordinator does not take
part, and its state of the transactional id stays as it is. Version 2 tells the version of the transaction,
from which it depends whether a marker may have the transaction's own epoch.

A shard of groups that is not available is NOT_LEADER_OR_FOLLOWER, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.api.administration import MOST_NAMED, log_change
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.registration import Api
from headgate.api.transaction_markers import write_marker
from headgate.core.contract import Producer, TransactionEnd
from headgate.domain.errors import ErrorCode
from headgate.domain.wording import some_of
from headgate.security.authorizer import Need
from headgate.security.resources import CLUSTER, Operation
from headgate.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_UNAVAILABLE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class _Markers:
    """One request, from its first marker to its response."""

    __slots__ = ("_call", "_missing", "response")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._missing = 1
        """Number of markers that are not durable yet, and one until all are written."""
        self.response = WriteTxnMarkersResponse()

    def written(self, result: WritableTxnMarkerPartitionResult) -> Callable[..., None]:
        """Return the function that takes the outcome of one marker."""
        self._missing += 1

        def take(error: ErrorCode) -> None:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _UNAVAILABLE else error
            self.count_down()

        return self._call.guard(take)

    def count_down(self, nothing: None = None) -> None:
        """Send the response after the last marker."""
        self._missing -= 1
        if not self._missing:
            self._call.answer_aside(lambda: self.response)


def handle(node: Node, call: Call, request: WriteTxnMarkersRequest) -> None:
    """Write each marker to each of its partitions; answer when all are durable."""
    markers = _Markers(call)
    for marker in request.markers[:MOST_NAMED]:
        _log(call, marker)
    call.in_steps(_write_all(node, request, markers), markers.count_down)


def _log(call: Call, marker: WritableTxnMarker) -> None:
    """Log who ends a transaction in its partitions: its producer does not."""
    named = (f"{topic.name}-{index}" for topic in marker.topics for index in topic.partition_indexes)
    count = sum(len(topic.partition_indexes) for topic in marker.topics)
    fields = {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "coordinator_epoch": marker.coordinator_epoch,
        "result": "commit" if marker.transaction_result else "abort",
        "partitions": some_of(named, count, MOST_NAMED),
    }
    log_change(call, "transaction markers requested", fields)


def _write_all(node: Node, request: WriteTxnMarkersRequest, markers: _Markers) -> RequestSteps[None]:
    for marker in request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        markers.response.markers.append(result)
        yield from _write(node, marker, result, markers)


def _write(
    node: Node, marker: WritableTxnMarker, result: WritableTxnMarkerResult, markers: _Markers
) -> RequestSteps[None]:
    producer = Producer(marker.producer_id, marker.producer_epoch)
    end = TransactionEnd(producer, marker.transaction_result, marker.coordinator_epoch)
    for topic in marker.topics:
        each = WritableTxnMarkerTopicResult(name=topic.name)
        result.topics.append(each)
        for index in topic.partition_indexes:
            yield None
            partition = WritableTxnMarkerPartitionResult(partition_index=index)
            each.partitions.append(partition)
            on_written = markers.written(partition)
            yield from write_marker(node, topic.name, index, end, marker.transaction_version, on_written)


def deny(node: Node, call: Call, request: WriteTxnMarkersRequest, error: ErrorCode) -> None:
    """Refuse the whole request, with an error of each partition."""
    call.answer_in_steps(_denied(request, error))


def _denied(request: WriteTxnMarkersRequest, error: ErrorCode) -> RequestSteps[WriteTxnMarkersResponse]:
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for topic in marker.topics:
            yield None
            each = [
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                for index in topic.partition_indexes
            ]
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=each))
    return response


def needs(node: Node, call: Call, request: WriteTxnMarkersRequest) -> tuple[Need, ...]:
    """Return the need: ALTER on the cluster, or CLUSTER_ACTION."""
    return (Need(Operation.ALTER, CLUSTER, Need(Operation.CLUSTER_ACTION, CLUSTER)),)


API = Api(
    key=27,
    name="WriteTxnMarkers",
    min_version=1,
    max_version=2,
    request_type=WriteTxnMarkersRequest,
    response_type=WriteTxnMarkersResponse,
    handle=handle,
    needs=needs,
    deny=deny,
)

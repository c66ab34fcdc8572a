"""DeleteRecords (key 21), versions 0-2: raise a partition's log start offset.

Offset -1 means the high watermark. An offset below the log start is no error; one beyond the high watermark
is OFFSET_OUT_OF_RANGE. Records that are written and not durable yet, which a producer with acks=1 was told
of, are waited for. A topic that is only compacted is POLICY_VIOLATION, an internal one
INVALID_TOPIC_EXCEPTION.
"""

from __future__ import annotations

from concurrent.futures import Future

from headgate.api.administration import log_change
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_topics
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.log.batch import CorruptBatch
from headgate.security.resources import Operation
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition
from headgate.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(node: Node, call: Call, request: DeleteRecordsRequest) -> None:
    """Handle each partition independently."""
    call.answer_in_steps(_answer(node, call, request))


def _answer(node: Node, call: Call, request: DeleteRecordsRequest) -> RequestSteps[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answers = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(answers)
        for wanted in topic.partitions:
            yield None
            error, low_watermark = yield from _delete(node, call, topic.name, wanted)
            answers.partitions.append(
                DeleteRecordsPartitionResult(
                    partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=error
                )
            )
    return response


def _delete(
    node: Node, call: Call, topic_name: str, wanted: DeleteRecordsPartition
) -> RequestSteps[tuple[ErrorCode, int]]:
    topic = node.topics.by_name(topic_name)
    partition = None if topic is None else topic.find_partition(wanted.partition_index)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, -1
    if not topic.policy.is_deleted_from:
        return ErrorCode.POLICY_VIOLATION, -1
    yield from opened_aside(partition)
    if _names_records_to_be_synced(partition, wanted.offset):
        yield from _synced(node, partition)
        if node.topics.by_name(topic_name) is not topic:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
    before = _start_of(partition)
    error, start = partition.delete_records(wanted.offset)
    if not error and start != before:
        fields = {"partition": partition, "reason": "request", "from_offset": before, "up_to_offset": start}
        log_change(call, "records deleted", fields)
    return error, start


def _names_records_to_be_synced(partition: Partition, before: int) -> bool:
    try:
        watermark, end = partition.high_watermark, partition.log_end_offset
    except (OSError, CorruptBatch):
        return False  # the deletion reports it
    return watermark < end and (before == -1 or watermark < before <= end)


def _synced(node: Node, partition: Partition) -> RequestSteps[None]:
    """Wait until what the log has now is durable, or cannot be made durable."""
    there: Future[None] = Future()

    def done(is_durable: bool) -> None:
        partition.synced(is_durable)
        there.set_result(None)

    node.durability.when_durable(partition.log, done)
    yield there


def _start_of(partition: Partition) -> int | None:
    """Return the log start offset; None if the log cannot be opened, which the deletion reports."""
    try:
        return partition.log_start_offset
    except (OSError, CorruptBatch):
        return None


API = Api(
    key=21,
    name="DeleteRecords",
    min_version=0,
    max_version=2,
    request_type=DeleteRecordsRequest,
    response_type=DeleteRecordsResponse,
    handle=handle,
    needs=of_topics(Operation.DELETE),
)

"""ListOffsets (key 2), versions 1-11: first and last offset of a partition, and offsets by time.

A timestamp asks for the first record at or after it. Special timestamps: -1 the high watermark, -2 the log
start, -3 the first record with the greatest timestamp (7+, KIP-734), -4 the local log start (8+, KIP-405),
here the log start, -5 the end of the tiered log (9+, KIP-1005) and -6 its next upload (11+, KIP-1023), which
do not exist here and are -1. Any other negative one, or one before its version, is UNSUPPORTED_VERSION,
whether or not the partition exists.

With the isolation level read_committed the last stable offset is where the high watermark was: -1 is this
offset, and no record at or after it is found.

A partition given twice in a request is INVALID_REQUEST, for both.
"""

from __future__ import annotations

from collections import Counter

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_topics
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.security.resources import Operation
from headgate.topics.offset_search import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    FoundOffset,
)
from headgate.topics.opening_aside import opened_aside
from headgate.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_READ_COMMITTED = 1
_NAMED_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version with each special timestamp."""


def handle(node: Node, call: Call, request: ListOffsetsRequest) -> None:
    """Answer each partition independently."""
    call.answer_in_steps(_answer(node, call, request))


def _answer(node: Node, call: Call, request: ListOffsetsRequest) -> RequestSteps[ListOffsetsResponse]:
    times_asked: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for partition in topic.partitions:
            times_asked[topic.name, partition.partition_index] += 1
            yield None
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answers)
        for partition in topic.partitions:
            yield None
            if times_asked[topic.name, partition.partition_index] > 1:
                found = FoundOffset(ErrorCode.INVALID_REQUEST)
            else:
                is_committed = request.isolation_level == _READ_COMMITTED
                found = yield from _find(node, call, topic.name, partition, is_committed=is_committed)
            answers.partitions.append(
                ListOffsetsPartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=found.error,
                    timestamp=found.timestamp,
                    offset=found.offset,
                    leader_epoch=found.leader_epoch,
                )
            )
    return response


def _find(
    node: Node, call: Call, topic_name: str, wanted: ListOffsetsPartition, *, is_committed: bool
) -> RequestSteps[FoundOffset]:
    if wanted.timestamp < 0:
        since = _NAMED_SINCE.get(wanted.timestamp)
        if since is None or call.api_version < since:
            return FoundOffset(ErrorCode.UNSUPPORTED_VERSION)
    topic = node.topics.by_name(topic_name)
    partition = None if topic is None else topic.find_partition(wanted.partition_index)
    if partition is None:
        return FoundOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = partition.check_leader_epoch(wanted.current_leader_epoch)
    if error != ErrorCode.NONE:
        return FoundOffset(error)
    yield from opened_aside(partition)
    return (yield from partition.find_offset(wanted.timestamp, is_committed=is_committed))


API = Api(
    key=2,
    name="ListOffsets",
    min_version=1,
    max_version=11,
    request_type=ListOffsetsRequest,
    response_type=ListOffsetsResponse,
    handle=handle,
    needs=of_topics(Operation.DESCRIBE),
)

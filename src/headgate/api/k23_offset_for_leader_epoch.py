"""OffsetForLeaderEpoch (key 23), versions 2-4: return the end offset of a leader epoch (KIP-320).

After a change of leader epoch a consumer checks whether the records it has read still exist. The epoch rises
when the node starts after a crash.
"""

from __future__ import annotations

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_topics
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.log.batch import CorruptBatch
from headgate.security.resources import Operation
from headgate.topics.opening_aside import opened_aside
from headgate.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(node: Node, call: Call, request: OffsetForLeaderEpochRequest) -> None:
    """Answer each partition independently."""
    call.answer_in_steps(_answer(node, request))


def _answer(node: Node, request: OffsetForLeaderEpochRequest) -> RequestSteps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answers)
        for wanted in topic.partitions:
            yield None
            answer = yield from _find(node, topic.topic, wanted)
            answers.partitions.append(answer)
    return response


def _find(node: Node, topic_name: str, wanted: OffsetForLeaderPartition) -> RequestSteps[EpochEndOffset]:
    answer = EpochEndOffset(partition=wanted.partition)
    topic = node.topics.by_name(topic_name)
    partition = None if topic is None else topic.find_partition(wanted.partition)
    if partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer
    error = partition.check_leader_epoch(wanted.current_leader_epoch)
    if error != ErrorCode.NONE:
        answer.error_code = error
        return answer
    yield from opened_aside(partition)
    if partition.topic.is_deleted:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer
    try:
        answer.leader_epoch, answer.end_offset = partition.end_offset_of_epoch(wanted.leader_epoch)
    except (OSError, CorruptBatch):
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return answer


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    min_version=2,
    max_version=4,
    request_type=OffsetForLeaderEpochRequest,
    response_type=OffsetForLeaderEpochResponse,
    handle=handle,
    needs=of_topics(Operation.DESCRIBE, Operation.CLUSTER_ACTION),
)

"""OffsetDelete (47), version 0: delete offsets of topics that the group does not read (KIP-496).

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION; an offset that was never committed is no
error. The group survives its last offset.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from headgate.api.contract import Api, Call, Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.core.offsets.commands import DeleteOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_MOST_AT_ONCE = 1000
"""The offsets of more partitions are deleted so many at a time."""


def handle(node: Node, call: Call, request: OffsetDeleteRequest) -> None:
    """Answer with an error for the group, or for each partition in the order asked."""
    if sum(1 + len(topic.partitions) for topic in request.topics) <= _MOST_AT_ONCE:
        _delete(node, request, call.answer)
    else:
        call.answer_in_steps(_delete_in_steps(node, request))


def _delete_in_steps(node: Node, request: OffsetDeleteRequest) -> RequestSteps[OffsetDeleteResponse]:
    """Delete the offsets of some partitions after the others."""
    response = OffsetDeleteResponse()
    for topic in request.topics:
        answered = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(answered)
        for first in range(0, len(topic.partitions), _MOST_AT_ONCE):
            some = OffsetDeleteRequestTopic(
                name=topic.name, partitions=topic.partitions[first : first + _MOST_AT_ONCE]
            )
            there: Future[OffsetDeleteResponse] = Future()
            _delete(node, OffsetDeleteRequest(group_id=request.group_id, topics=[some]), there.set_result)
            yield there
            piece = there.result()
            if piece.error_code:
                return piece
            answered.partitions += piece.topics[0].partitions
    return response


def _delete(node: Node, request: OffsetDeleteRequest, answer: Callable[[OffsetDeleteResponse], None]) -> None:
    response = OffsetDeleteResponse()
    wanted: list[tuple[TopicName, list[int]]] = []
    open_answers: list[list[OffsetDeleteResponsePartition]] = []
    for topic in request.topics:
        known = node.topics.by_name(topic.name)
        partition_count = known.partition_count if known is not None else 0
        answers = [
            OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            for partition in topic.partitions
        ]
        existing = [one for one in answers if 0 <= one.partition_index < partition_count]
        for one in answers:
            if not 0 <= one.partition_index < partition_count:
                one.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        if existing:
            wanted.append((TopicName(topic.name), [one.partition_index for one in existing]))
            open_answers.append(existing)

    def on_result(result: Any) -> None:
        error = error_of(result)
        if error:
            answer(OffsetDeleteResponse(error_code=error))
            return
        for answers, (_, topic_error) in zip(open_answers, result.topics, strict=True):
            for one in answers:
                one.error_code = topic_error
        answer(response)

    command = DeleteOffsets(GroupId(request.group_id), wanted)
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


API = Api(47, "OffsetDelete", 0, 0, OffsetDeleteRequest, OffsetDeleteResponse, handle)

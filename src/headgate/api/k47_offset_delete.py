"""OffsetDelete (47), version 0: delete offsets of topics that the group does not read (KIP-496).

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION; an offset that was never committed is no
error. The group survives its last offset.
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Api, Call, Node
from headgate.api.group_answers import error_of
from headgate.core.offsets.commands import DeleteOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(node: Node, call: Call, request: OffsetDeleteRequest) -> None:
    """Answer with an error for the group, or for each partition in the order asked."""
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
        existing = [answer for answer in answers if 0 <= answer.partition_index < partition_count]
        for answer in answers:
            if not 0 <= answer.partition_index < partition_count:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        if existing:
            wanted.append((TopicName(topic.name), [answer.partition_index for answer in existing]))
            open_answers.append(existing)

    def on_result(result: Any) -> None:
        error = error_of(result)
        if error:
            call.answer(OffsetDeleteResponse(error_code=error))
            return
        for answers, (_, topic_error) in zip(open_answers, result.topics, strict=True):
            for answer in answers:
                answer.error_code = topic_error
        call.answer(response)

    command = DeleteOffsets(GroupId(request.group_id), wanted)
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


API = Api(47, "OffsetDelete", 0, 0, OffsetDeleteRequest, OffsetDeleteResponse, handle)

"""OffsetDelete (47), version 0: delete offsets of topics that the group does not read (KIP-496).

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION; an offset that was never committed is no
error. The group survives its last offset.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, NamedTuple

from headgate.api.contract import Api, Call, Node, RequestSteps
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

_MOST_AT_ONCE = 500
"""More partitions are sorted out and answered so many in a step."""

Wanted = list[tuple[TopicName, list[int]]]


class _Sorted(NamedTuple):
    """The response as far as it is known, what is to be deleted, and the answers that wait for it."""

    response: OffsetDeleteResponse
    wanted: Wanted
    open_answers: list[list[OffsetDeleteResponsePartition]]


def handle(node: Node, call: Call, request: OffsetDeleteRequest) -> None:
    """Answer with an error for the group, or for each partition in the order asked."""
    call.answer_in_steps(_delete(node, request))


def _delete(node: Node, request: OffsetDeleteRequest) -> RequestSteps[OffsetDeleteResponse]:
    """Delete all in one piece; what comes before and after that goes in steps."""
    found = _Sorted(OffsetDeleteResponse(), [], [])
    yield from _sort_out(node, request, found)
    command = DeleteOffsets(GroupId(request.group_id), found.wanted)
    there: Future[Any] = Future()
    node.router.owner_of(command.group_id).submit(command.group_id, command, there.set_result)
    yield there
    return (yield from _response(found, there.result()))


def _sort_out(node: Node, request: OffsetDeleteRequest, found: _Sorted) -> RequestSteps[None]:
    """Tell the partitions that exist from those that do not."""
    for topic in request.topics:
        known = node.topics.by_name(topic.name)
        partition_count = known.partition_count if known is not None else 0
        answers: list[OffsetDeleteResponsePartition] = []
        existing: list[OffsetDeleteResponsePartition] = []
        for first in range(0, len(topic.partitions), _MOST_AT_ONCE):
            for partition in topic.partitions[first : first + _MOST_AT_ONCE]:
                answer = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
                answers.append(answer)
                if 0 <= answer.partition_index < partition_count:
                    existing.append(answer)
                else:
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield None
        found.response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        if existing:
            found.wanted.append((TopicName(topic.name), [one.partition_index for one in existing]))
            found.open_answers.append(existing)


def _response(found: _Sorted, result: Any) -> RequestSteps[OffsetDeleteResponse]:
    """The response, with what the coordinator answered."""
    error = error_of(result)
    if error:
        return OffsetDeleteResponse(error_code=error)
    for answers, (_, topic_error) in zip(found.open_answers, result.topics, strict=True):
        for first in range(0, len(answers), _MOST_AT_ONCE):
            for answer in answers[first : first + _MOST_AT_ONCE]:
                answer.error_code = topic_error
            yield None
    return found.response


API = Api(47, "OffsetDelete", 0, 0, OffsetDeleteRequest, OffsetDeleteResponse, handle)

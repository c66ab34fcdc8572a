"""ListPausedPartitions (20003), versions 0-1: which partitions of a group are paused (KIP-1249).

Version 0 has no room for an error: a group that cannot be paused, or is not there, has nothing paused. Where
nobody knows (the shard is being loaded, say) the connection is closed, as an empty list would be wrong. A
long list is put together in pieces: a partition that is paused meanwhile may be in it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.api.needs import of_group
from headgate.api.registration import Api
from headgate.core.pause.commands import ListedPartition, ListPausedPartitions, PausedList, PausedTopic
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.security.resources import Operation
from headgate.wire.extensions.list_paused_partitions import (
    ListPausedPartitionsRequest,
    ListPausedPartitionsResponse,
    ListPausedPartitionsResponsePartition,
    ListPausedPartitionsResponseTopic,
)

_ERRORS_SINCE: Final = 1
_NOTHING_PAUSED: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)
_MOST_AT_ONCE: Final = 250
"""More partitions are answered so many in a step."""


def handle(node: Node, call: Call, request: ListPausedPartitionsRequest) -> None:
    """Answer when all pieces are there."""

    def answer(response: ListPausedPartitionsResponse) -> None:
        error = ErrorCode(response.error_code)
        if error and call.api_version < _ERRORS_SINCE and error not in _NOTHING_PAUSED:
            call.disconnect(f"no version 0 of ListPausedPartitions can say {error.name}")
        else:
            call.answer_aside(lambda: response)

    call.in_steps(_list(node, GroupId(request.group_id)), answer)


def _list(node: Node, group_id: GroupId) -> RequestSteps[ListPausedPartitionsResponse]:
    response = ListPausedPartitionsResponse()
    command: ListPausedPartitions | None = ListPausedPartitions(group_id)
    while command is not None:
        there: Future[Any] = Future()
        node.router.owner_of(group_id).submit(group_id, command, there.set_result)
        yield there
        result = there.result()
        if not isinstance(result, PausedList):
            message = None if isinstance(result, ErrorCode) else result.message
            return ListPausedPartitionsResponse(error_code=error_of(result), error_message=message)
        for topic in result.topics:
            yield from _add(response, topic)
        command = None if result.rest is None else ListPausedPartitions(group_id, result.rest)
    return response


def _add(response: ListPausedPartitionsResponse, topic: PausedTopic) -> RequestSteps[None]:
    """Add partitions of a topic, perhaps the topic of the last piece."""
    if not response.topics or response.topics[-1].topic_id != topic.topic_id:
        response.topics.append(ListPausedPartitionsResponseTopic(name=topic.name, topic_id=topic.topic_id))
    partitions = response.topics[-1].partitions
    for first in range(0, len(topic.partitions), _MOST_AT_ONCE):
        partitions += _listed(topic.partitions[first : first + _MOST_AT_ONCE])
        yield None


def _listed(partitions: Sequence[ListedPartition]) -> Iterator[ListPausedPartitionsResponsePartition]:
    for one in partitions:
        yield ListPausedPartitionsResponsePartition(
            partition_index=one.partition,
            offset=one.offset,
            state=one.state,
            owner=one.owner,
            since_ms=one.pause.since,
            caller=one.pause.caller,
            reason=one.pause.reason,
        )


API = Api(
    20003,
    "ListPausedPartitions",
    0,
    1,
    ListPausedPartitionsRequest,
    ListPausedPartitionsResponse,
    handle,
    needs=of_group(Operation.DESCRIBE),
)

"""ListPausedPartitions (20003), versions 0-1: list the paused partitions of a group (KIP-1249).

Version 0 has no error field: an unknown group, and one that cannot be paused, has no paused partitions. If
the shard cannot answer, for example while it is loading, the connection is closed, as an empty list would be
wrong. A long list is collected in pieces: a partition that is paused meanwhile may be included or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.api.needs import of_group
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core.pause.commands import (
    ListedPartition,
    ListPausedPartitions,
    PausedList,
    PausedTopic,
    PauseState,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId
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
"""Partitions that one step answers."""


def handle(node: Node, call: Call, request: ListPausedPartitionsRequest) -> None:
    """Answer when all pieces are collected."""

    def answer(response: ListPausedPartitionsResponse) -> None:
        error = ErrorCode(response.error_code)
        if error and call.api_version < _ERRORS_SINCE and error not in _NOTHING_PAUSED:
            call.disconnect(f"no version 0 of ListPausedPartitions can say {error.name}")
        elif sum(len(topic.partitions) for topic in response.topics) <= _MOST_AT_ONCE:
            call.answer(response)  # a thread costs more than such a response
        else:
            call.answer_aside(lambda: response)

    call.in_steps(_list(node, GroupId(request.group_id)), answer)


def _list(node: Node, group_id: GroupId) -> RequestSteps[ListPausedPartitionsResponse]:
    response = ListPausedPartitionsResponse()
    command: ListPausedPartitions | None = ListPausedPartitions(group_id)
    while command is not None:
        result = yield from reply_to(partial(node.router.owner_of(group_id).submit, group_id, command))
        if not isinstance(result, PausedList):
            message = None if isinstance(result, ErrorCode) else result.message
            return ListPausedPartitionsResponse(error_code=error_of(result), error_message=message)
        for topic in result.topics:
            yield from _add(response, node, group_id, topic)
        command = None if result.rest is None else ListPausedPartitions(group_id, result.rest)
    return response


def _add(
    response: ListPausedPartitionsResponse, node: Node, group_id: GroupId, topic: PausedTopic
) -> RequestSteps[None]:
    """Add partitions of a topic, which may continue the last piece's topic."""
    if not response.topics or response.topics[-1].topic_id != topic.topic_id:
        response.topics.append(ListPausedPartitionsResponseTopic(name=topic.name, topic_id=topic.topic_id))
    partitions = response.topics[-1].partitions
    for first in range(0, len(topic.partitions), _MOST_AT_ONCE):
        some = topic.partitions[first : first + _MOST_AT_ONCE]
        partitions += _listed(node, group_id, topic.topic_id, some)
        yield None


def _listed(
    node: Node, group_id: GroupId, topic_id: TopicId, partitions: Sequence[ListedPartition]
) -> Iterator[ListPausedPartitionsResponsePartition]:
    shares = node.shares
    for one in partitions:
        key = topic_id, one.partition
        is_held = shares.is_being_released(group_id, key)  # by members of a share group
        yield ListPausedPartitionsResponsePartition(
            partition_index=one.partition,
            offset=one.offset,
            state=PauseState.PAUSING if is_held else one.state,
            owner=shares.holder(group_id, key) if is_held else one.owner,
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

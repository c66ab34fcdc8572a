"""OffsetDelete (47), version 0: delete offsets of topics that the group does not read (KIP-496).

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION; an offset that was never committed is no
error. The group survives its last offset. Many are deleted in pieces, and others have their turn in between:
the error of a later piece does not bring back what went with an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.api.needs import of_group_and_topics
from headgate.api.registration import Api
from headgate.core.offsets.commands import DeleteOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.security.resources import Operation
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_MOST_AT_ONCE = 500
"""More partitions are sorted out and answered so many in a step."""
_MOST_IN_A_PIECE = 2000
"""To find, apply and write the removal of so many takes some milliseconds."""


class _Existing(NamedTuple):
    """Partitions of a topic that exist, by the answers that wait for their deletion."""

    topic: TopicName
    answers: list[OffsetDeleteResponsePartition]


class _Sorted(NamedTuple):
    """The response as far as it is known, and what is to be deleted."""

    response: OffsetDeleteResponse
    wanted: list[_Existing]


def handle(node: Node, call: Call, request: OffsetDeleteRequest) -> None:
    """Answer with an error for the group, or for each partition in the order asked."""
    call.answer_in_steps(_delete(node, request))


def _delete(node: Node, request: OffsetDeleteRequest) -> RequestSteps[OffsetDeleteResponse]:
    """Sort out what exists, then delete it piece by piece."""
    group_id = GroupId(request.group_id)
    found = _Sorted(OffsetDeleteResponse(), [])
    yield from _sort_out(node, request, found)
    for piece in _pieces(found.wanted):
        wanted = [(one.topic, [answer.partition_index for answer in one.answers]) for one in piece]
        there: Future[Any] = Future()
        command = DeleteOffsets(group_id, wanted)
        node.router.owner_of(group_id).submit(group_id, command, there.set_result)
        yield there
        result = there.result()
        if error := error_of(result):
            return OffsetDeleteResponse(error_code=error)
        for one, (_, topic_error) in zip(piece, result.topics, strict=True):
            for answer in one.answers:
                answer.error_code = topic_error
    return found.response


def _pieces(wanted: Sequence[_Existing]) -> Iterator[list[_Existing]]:
    """Cut what is to be deleted into pieces of so many partitions; at least one, which may be empty."""
    piece: list[_Existing] = []
    room = _MOST_IN_A_PIECE
    for topic, answers in wanted:
        at = 0
        while at < len(answers):
            if not room:
                yield piece
                piece, room = [], _MOST_IN_A_PIECE
            some = answers[at : at + room]
            piece.append(_Existing(topic, some))
            at += len(some)
            room -= len(some)
    yield piece


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
            found.wanted.append(_Existing(TopicName(topic.name), existing))


API = Api(
    47,
    "OffsetDelete",
    0,
    0,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    handle,
    needs=of_group_and_topics(Operation.DELETE, Operation.READ),
)

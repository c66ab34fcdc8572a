"""OffsetDelete (47), version 0: delete offsets of topics that the group is not subscribed to (KIP-496).

Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; a partition without a committed offset is no
error. The group survives its last offset. Many offsets are deleted in pieces, with pauses between them: an
error of a later piece does not restore offsets that an earlier one deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from headgate.api.authors import author_of
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import error_of
from headgate.api.needs import of_group_and_topics
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core.offsets.authors import Author
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
"""Partitions that one step sorts out and answers."""
_MOST_IN_A_PIECE = 2000
"""Partitions of one command: finding, applying and writing so many removals takes some milliseconds."""


class _Existing(NamedTuple):
    """Existing partitions of a topic, by their entries in the response."""

    topic: TopicName
    answers: list[OffsetDeleteResponsePartition]


class _Sorted(NamedTuple):
    """The response as far as it is known, and the partitions to delete."""

    response: OffsetDeleteResponse
    wanted: list[_Existing]


def handle(node: Node, call: Call, request: OffsetDeleteRequest) -> None:
    """Answer with an error for the group, or for each partition in the order asked."""
    call.answer_in_steps(_delete(node, request, author_of(call)))


def _delete(node: Node, request: OffsetDeleteRequest, author: Author) -> RequestSteps[OffsetDeleteResponse]:
    """Find the existing partitions, then delete their offsets piece by piece."""
    group_id = GroupId(request.group_id)
    found = _Sorted(OffsetDeleteResponse(), [])
    yield from _sort_out(node, request, found)
    for piece in _pieces(found.wanted):
        wanted = [(one.topic, [answer.partition_index for answer in one.answers]) for one in piece]
        command = DeleteOffsets(group_id, wanted, author)
        result = yield from reply_to(partial(node.router.owner_of(group_id).submit, group_id, command))
        if error := error_of(result):
            return OffsetDeleteResponse(error_code=error)
        for one, (_, topic_error) in zip(piece, result.topics, strict=True):
            for answer in one.answers:
                answer.error_code = topic_error
    return found.response


def _pieces(wanted: Sequence[_Existing]) -> Iterator[list[_Existing]]:
    """Divide the partitions into pieces of limited size; yields at least one, which may be empty."""
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
    """Separate existing partitions from unknown ones."""
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

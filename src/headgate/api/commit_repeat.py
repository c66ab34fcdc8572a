"""Commits that come again with other offsets, served without being read again.

Which partitions they name, who commits them and how the answer looks was found out once. Whether the member
may commit is asked every time, and every topic has to be the one it was, whether it is called by its name or
by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.api import conditional_commit
from headgate.api.commit_messages import command_of, fill_in, sort_out
from headgate.api.contract import Node, RepeatedCall
from headgate.core.offsets.commands import NO_RETENTION, CommitAgain, CommitOffsets, OffsetColumns
from headgate.core.offsets.commit import ACCEPTED, is_metadata_too_large
from headgate.wire.framing import response_body
from headgate.wire.messages.offset_commit import OffsetCommitRequest
from headgate.wire.repeats import Numbers, WrittenResponse
from headgate.wire.wide import WideStructs

if TYPE_CHECKING:
    from headgate.topics.topic import Topic


def commit_repeat(node: Node, version: int, request: OffsetCommitRequest) -> CommitRepeat | None:
    """What serves this commit when it comes again; None for one that is not always taken whole."""
    if conditional_commit.is_wanted(request):
        return None
    sorted_commit = sort_out(node, version, request)
    if not sorted_commit.wanted or not sorted_commit.is_whole or request.retention_time_ms != NO_RETENTION:
        return None
    command = command_of(request, sorted_commit.wanted, version)
    if any(
        is_metadata_too_large(text, node.settings["offset.metadata.max.bytes"]) for text in _texts(command)
    ):
        return None
    topics = [known for name, _ in command.topics if (known := node.topics.by_name(name)) is not None]
    response = WrittenResponse(response_body(8, version, sorted_commit.response))
    return CommitRepeat(version, request, command, topics, response)


def _texts(command: CommitOffsets) -> set[str]:
    texts: set[str] = set()
    for _, partitions in command.topics:
        if isinstance(partitions, OffsetColumns):
            texts.add(partitions.metadata)
        else:
            texts.update(partition.metadata for partition in partitions)
    return texts


class CommitRepeat:
    """One such commit; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_command", "_request", "_response", "_topics", "_version")

    def __init__(
        self,
        version: int,
        request: OffsetCommitRequest,
        command: CommitOffsets,
        topics: list[Topic],
        response: WrittenResponse,
    ) -> None:
        """`response` is the one to a commit without errors."""
        self._version = version
        self._request = request
        self._command = command
        self._topics = [(topic.name, topic) for topic in topics]
        self._response = response

    def invert(self, request: OffsetCommitRequest) -> None:
        """Invert every offset."""
        for topic in request.topics:
            if isinstance(topic.partitions, WideStructs):
                columns = topic.partitions.columns
                topic.partitions.columns = {**columns, "committed_offset": ~columns["committed_offset"]}
            else:
                for partition in topic.partitions:
                    partition.committed_offset = ~partition.committed_offset

    def serve(self, node: Node, calls: Sequence[RepeatedCall], numbers: Sequence[Numbers]) -> bool:
        """Commit these offsets, unless a topic is no longer the one it was."""
        by_name = node.topics.by_name
        for name, topic in self._topics:
            if by_name(name) is not topic:
                return False
        command = self._command
        node.router.owner_of(command.group_id).submit(
            command.group_id, CommitAgain(command, numbers), partial(self._on_result, node, calls)
        )
        return True

    def _on_result(self, node: Node, calls: Sequence[RepeatedCall], result: Any) -> None:
        if result is ACCEPTED:
            frame = self._response.frame
            for call in calls:
                call.answer_frame(frame(call.correlation_id))
            return
        response, _, open_answers = sort_out(node, self._version, self._request)
        fill_in(open_answers, result)
        for call in calls:
            call.answer(response)

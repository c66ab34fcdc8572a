"""Commits that come again with other offsets, served without being read again.

Which partitions they name, who commits them and how the answer looks was found out once. Whether the member
may commit is asked every time, and every topic has to be the one it was, whether it is called by its name or
by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

from headgate.api import conditional_commit
from headgate.api.commit_messages import command_of, fill_in, sort_out
from headgate.api.contract import Node, Repeat, RepeatedCall, RepeatedCalls
from headgate.core.offsets.commands import (
    NO_RETENTION,
    CommitAgain,
    CommitOffsets,
    CommitsAgain,
    OffsetColumns,
    RepeatedCommit,
    partition_count,
)
from headgate.core.offsets.commit import ACCEPTED, is_metadata_too_large
from headgate.domain.errors import ErrorCode
from headgate.records import StandingCommit
from headgate.wire.framing import response_body
from headgate.wire.messages.offset_commit import OffsetCommitRequest
from headgate.wire.repeats import MOST_NARROW, Numbers, WrittenResponse
from headgate.wire.wide import WideStructs

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

_RECORD_BYTES = 64
"""What a record takes beside the names, at most."""


def commit_repeat(node: Node, version: int, request: OffsetCommitRequest) -> Repeat | None:
    """What serves this commit when it comes again; None for one that is not always taken whole."""
    if conditional_commit.is_wanted(request):
        return None
    sorted_commit = sort_out(node, version, request)
    if not sorted_commit.wanted or not sorted_commit.is_whole or request.retention_time_ms != NO_RETENTION:
        return None
    command = command_of(request, sorted_commit.wanted, version)
    texts = _texts(command)
    if any(is_metadata_too_large(text, node.settings["offset.metadata.max.bytes"]) for text in texts):
        return None
    topics = [known for name, _ in command.topics if (known := node.topics.by_name(name)) is not None]
    response = WrittenResponse(response_body(8, version, sorted_commit.response))
    shard = node.coordinator.partition_of(command.group_id)
    kind = NarrowCommitRepeat if texts == {""} and _is_narrow(command) else CommitRepeat
    return kind(version, request, command, topics, response, shard)


def _texts(command: CommitOffsets) -> set[str]:
    texts: set[str] = set()
    for _, partitions in command.topics:
        if isinstance(partitions, OffsetColumns):
            texts.add(partitions.metadata)
        else:
            texts.update(partition.metadata for partition in partitions)
    return texts


def _is_narrow(command: CommitOffsets) -> bool:
    counts = [
        MOST_NARROW + 1 if isinstance(partitions, OffsetColumns) else len(partitions)
        for _, partitions in command.topics
    ]
    return sum(counts) <= MOST_NARROW


class CommitRepeat:
    """A commit of many partitions, or with metadata; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_command", "_request", "_topics", "_version", "frame", "shard", "weight_bytes")

    def __init__(
        self,
        version: int,
        request: OffsetCommitRequest,
        command: CommitOffsets,
        topics: list[Topic],
        response: WrittenResponse,
        shard: int,
    ) -> None:
        """`response` is the one to a commit without errors."""
        self._version = version
        self._request = request
        self._command = command
        self._topics = topics
        self.frame: Callable[[int], bytes] = response.frame
        """The response to a commit without errors, by correlation id."""
        self.shard = shard
        self.weight_bytes = sum(
            partition_count(partitions) * (len(command.group_id) + len(topic) + _RECORD_BYTES)
            for topic, partitions in command.topics
        )

    def invert(self, request: OffsetCommitRequest) -> None:
        """Invert every offset."""
        for topic in request.topics:
            if isinstance(topic.partitions, WideStructs):
                columns = topic.partitions.columns
                topic.partitions.columns = {**columns, "committed_offset": ~columns["committed_offset"]}
            else:
                for partition in topic.partitions:
                    partition.committed_offset = ~partition.committed_offset

    def is_current(self, node: Node) -> bool:
        """Whether every topic is still there."""
        for topic in self._topics:  # noqa: SIM110 - a loop takes half as long, and this is asked of each
            if topic.is_deleted:
                return False
        return True

    @classmethod
    def serve_each(
        cls, node: Node, repeats: Sequence[Self], calls: RepeatedCalls, numbers: Sequence[Numbers]
    ) -> None:
        """Commit these offsets; a commit that stands there several times in a row is one command."""
        for repeat, row in groupby(zip(repeats, calls, numbers, strict=True), lambda one: one[0]):
            rows = list(row)
            command = repeat._command
            node.router.owner_of(command.group_id).submit(
                command.group_id,
                CommitAgain(command, [one[2] for one in rows]),
                partial(repeat._on_result, node, [one[1] for one in rows]),
            )

    def _on_result(self, node: Node, calls: Sequence[RepeatedCall], result: Any) -> None:
        for call in calls:
            if result is ACCEPTED:
                call.answer_frame(self.frame(call.correlation_id))
            else:
                self.answer_refused(node, call, result)

    def answer_refused(self, node: Node, call: RepeatedCall, result: Any) -> None:
        """Answer a commit that was not taken whole."""
        response, _, open_answers = sort_out(node, self._version, self._request)
        fill_in(open_answers, result)
        call.answer(response)


class NarrowCommitRepeat(CommitRepeat):
    """A commit of a few partitions without metadata; those of a turn are one command."""

    __slots__ = ("_commit",)

    def __init__(self, *known: Any) -> None:
        super().__init__(*known)
        command = self._command
        self._commit = RepeatedCommit(
            command,
            [
                StandingCommit(command.group_id, topic, partition.partition, partition.leader_epoch)
                for topic, partitions in command.topics
                if not isinstance(partitions, OffsetColumns)
                for partition in partitions
            ],
        )

    @classmethod
    def serve_each(
        cls, node: Node, repeats: Sequence[Self], calls: RepeatedCalls, numbers: Sequence[Numbers]
    ) -> None:
        """Commit these offsets."""
        group_id = repeats[0]._command.group_id
        command = CommitsAgain([repeat._commit for repeat in repeats], numbers)
        node.router.owner_of(group_id).submit(
            group_id, command, partial(cls._on_results, node, repeats, calls)
        )

    @staticmethod
    def _on_results(
        node: Node, repeats: Sequence[NarrowCommitRepeat], calls: RepeatedCalls, results: Any
    ) -> None:
        if type(results) is list and results.count(ACCEPTED) == len(results):
            calls.answer_frames(
                [repeat.frame(call.correlation_id) for repeat, call in zip(repeats, calls, strict=True)]
            )
            return
        for index, (repeat, call) in enumerate(zip(repeats, calls, strict=True)):
            result = results if isinstance(results, ErrorCode) else results[index]
            if result is ACCEPTED:
                call.answer_frame(repeat.frame(call.correlation_id))
            else:
                repeat.answer_refused(node, call, result)

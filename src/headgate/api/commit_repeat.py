"""Commits that come again with other offsets, served without being read again.

Which partitions they name, who commits them and how the answer looks was found out once. Whether the member
may commit is asked every time, and every topic has to be the one it was, whether it is called by its name or
by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from headgate.api import conditional_commit
from headgate.api.commit_messages import command_of, fill_in, sort_out
from headgate.api.contract import Node, Repeat, RepeatedCall, RepeatedCalls
from headgate.api.group_repeat import GroupRepeat
from headgate.core.offsets.commands import (
    NO_RETENTION,
    CommitAgain,
    CommitOffsets,
    CommitResult,
    CommitsAgain,
    OffsetColumns,
    RepeatedCommit,
    ToCommit,
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
_KEPT_BYTES: Final = 1500
_TOPIC_KEPT_BYTES: Final = 250
_KEPT_ONE_BY_ONE_BYTES: Final = 400
_KEPT_IN_COLUMNS_BYTES: Final = 165
"""What a commit takes in memory, and for each topic and partition."""


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
    taken = _TakenCommit(version, request, command, topics, response)
    if texts == {""} and (partitions := _narrow(command)) is not None:
        return NarrowCommitRepeat(node, taken, partitions)
    return CommitRepeat(node, taken)


class _TakenCommit(NamedTuple):
    """A commit as it was asked, what was committed and where, and the response: all of it was taken."""

    version: int
    request: OffsetCommitRequest
    command: CommitOffsets
    topics: Sequence[Topic]
    response: WrittenResponse


def _texts(command: CommitOffsets) -> set[str]:
    texts: set[str] = set()
    for _, partitions in command.topics:
        if isinstance(partitions, OffsetColumns):
            texts.update(partitions.texts())
        else:
            texts.update(partition.metadata for partition in partitions)
    return texts


def _kept_bytes(partitions: ToCommit) -> int:
    is_wide = isinstance(partitions, OffsetColumns)
    return partition_count(partitions) * (_KEPT_IN_COLUMNS_BYTES if is_wide else _KEPT_ONE_BY_ONE_BYTES)


def _narrow(command: CommitOffsets) -> list[StandingCommit] | None:
    """What is committed but for the offsets, in order; None if it is wide."""
    standing: list[StandingCommit] = []
    for topic, partitions in command.topics:
        if isinstance(partitions, OffsetColumns) or len(standing) + len(partitions) > MOST_NARROW:
            return None
        standing += [
            StandingCommit(command.group_id, topic, partition.partition, partition.leader_epoch)
            for partition in partitions
        ]
    return standing


class CommitRepeat(GroupRepeat):
    """A commit of many partitions, or with metadata; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_taken", "response")

    def __init__(self, node: Node, taken: _TakenCommit) -> None:
        command = taken.command
        weight_bytes = sum(
            partition_count(partitions) * (len(command.group_id) + len(topic) + _RECORD_BYTES)
            for topic, partitions in command.topics
        )
        super().__init__(node, command.group_id, taken.topics, weight_bytes)
        self.kept_bytes = _KEPT_BYTES + sum(
            _TOPIC_KEPT_BYTES + _kept_bytes(partitions) for _, partitions in command.topics
        )
        self._taken = taken
        self.response = taken.response
        """To a commit without errors."""

    def invert(self, request: OffsetCommitRequest) -> None:
        """Invert every offset."""
        for topic in request.topics:
            if isinstance(topic.partitions, WideStructs):
                columns = topic.partitions.columns
                topic.partitions.columns = {**columns, "committed_offset": ~columns["committed_offset"]}
            else:
                for partition in topic.partitions:
                    partition.committed_offset = ~partition.committed_offset

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Commit these offsets; a commit that stands there several times in a row is one command."""
        first, count = 0, len(repeats)
        while first < count:
            repeat = repeats[first]
            end = first + 1
            while end < count and repeats[end] is repeat:
                end += 1
            node.router.owner_of(repeat.group_id).submit(
                repeat.group_id,
                CommitAgain(repeat._taken.command, numbers[first:end]),
                partial(repeat._on_result, node, calls.part(first, end), end - first),
            )
            first = end

    def _on_result(
        self, node: Node, calls: RepeatedCalls, count: int, result: CommitResult | ErrorCode
    ) -> None:
        if result is ACCEPTED:  # nearly always
            calls.answer_written([self.response] * count)
            return
        for call in calls:
            self._answer(node, call, result)

    def _answer(self, node: Node, call: RepeatedCall, result: CommitResult | ErrorCode) -> None:
        if result is ACCEPTED:
            call.answer_frame(self.response.frame(call.correlation_id))
            return
        response, _, open_answers = sort_out(node, self._taken.version, self._taken.request)
        fill_in(open_answers, result)
        call.answer(response)


class NarrowCommitRepeat(CommitRepeat):
    """A commit of a few partitions without metadata; those of a turn are one command."""

    __slots__ = ("_commit",)

    def __init__(self, node: Node, taken: _TakenCommit, partitions: Sequence[StandingCommit]) -> None:
        super().__init__(node, taken)
        self._commit = RepeatedCommit(taken.command, partitions)

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Commit these offsets."""
        group_id = repeats[0].group_id
        command = CommitsAgain([repeat._commit for repeat in repeats], numbers)
        node.router.owner_of(group_id).submit(
            group_id, command, partial(cls._on_results, node, repeats, calls)
        )

    @staticmethod
    def _on_results(
        node: Node,
        repeats: Sequence[NarrowCommitRepeat],
        calls: RepeatedCalls,
        results: list[CommitResult] | ErrorCode,
    ) -> None:
        if isinstance(results, ErrorCode):
            for repeat, call in zip(repeats, calls, strict=True):
                repeat._answer(node, call, results)
        elif results.count(ACCEPTED) == len(results):  # nearly always
            calls.answer_written([repeat.response for repeat in repeats])
        else:
            for repeat, call, result in zip(repeats, calls, results, strict=True):
                repeat._answer(node, call, result)

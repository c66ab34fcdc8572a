"""Repeated commits with other offsets, served without decoding them again.

Their partitions, member and response format were computed once. Whether the member may commit is checked
every time. Every topic must still be the same one, whether the request has its name or its id.
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
    CommitOffsets,
    CommitResult,
    Commits,
    OffsetColumns,
    ToCommit,
    partition_count,
)
from headgate.core.offsets.commit import ACCEPTED, shape_of, too_large_metadata
from headgate.domain.errors import ErrorCode
from headgate.wire.framing import response_body
from headgate.wire.messages.offset_commit import OffsetCommitRequest
from headgate.wire.repeats import Numbers, WrittenResponse
from headgate.wire.wide import WideStructs

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

_RECORD_BYTES = 64
"""Maximum size of a record without the names."""
_KEPT_BYTES: Final = 1500
_TOPIC_KEPT_BYTES: Final = 250
_KEPT_ONE_BY_ONE_BYTES: Final = 700
_KEPT_IN_COLUMNS_BYTES: Final = 165
"""Memory of a commit, and of each topic and partition, in bytes."""


def commit_repeat(node: Node, version: int, request: OffsetCommitRequest) -> Repeat | None:
    """Return the `Repeat` for this commit; None for a commit that may be accepted only in part."""
    if conditional_commit.is_wanted(request):
        return None
    sorted_commit = sort_out(node, version, request)
    if not sorted_commit.wanted or not sorted_commit.is_whole or request.retention_time_ms != NO_RETENTION:
        return None
    command = command_of(request, sorted_commit.wanted, version)
    limit: int = node.settings["offset.metadata.max.bytes"]
    if any(too_large_metadata(partitions, limit) for _, partitions in command.topics):
        return None
    topics = [known for name, _ in command.topics if (known := node.topics.by_name(name)) is not None]
    response = WrittenResponse(response_body(8, version, sorted_commit.response))
    return CommitRepeat(node, _TakenCommit(version, request, command, topics, response))


def _text_bytes(partitions: ToCommit) -> int:
    """Return the approximate size of the partitions' metadata."""
    if isinstance(partitions, OffsetColumns):
        return sum(map(len, partitions.texts()))
    return sum([len(one.metadata) for one in partitions])


def _kept_bytes(partitions: ToCommit) -> int:
    is_wide = isinstance(partitions, OffsetColumns)
    return partition_count(partitions) * (_KEPT_IN_COLUMNS_BYTES if is_wide else _KEPT_ONE_BY_ONE_BYTES)


class _TakenCommit(NamedTuple):
    """A commit that was accepted for all partitions: the request, the command and the response."""

    version: int
    request: OffsetCommitRequest
    command: CommitOffsets
    topics: Sequence[Topic]
    response: WrittenResponse


class CommitRepeat(GroupRepeat):
    """One repeated commit; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_shape", "_taken", "is_narrow", "response")

    def __init__(self, node: Node, taken: _TakenCommit) -> None:
        command = taken.command
        weight_bytes = sum(
            partition_count(partitions) * (len(command.group_id) + len(topic) + _RECORD_BYTES)
            + _text_bytes(partitions)
            for topic, partitions in command.topics
        )
        super().__init__(node, command.group_id, taken.topics, weight_bytes)
        self.kept_bytes = _KEPT_BYTES + sum(
            _TOPIC_KEPT_BYTES + _kept_bytes(partitions) for _, partitions in command.topics
        )
        self._taken = taken
        self._shape = shape_of(command)
        self.is_narrow = self._shape.records is not None
        """Whether it can share a batch with other commits of a turn; one in columns is a batch of its own."""
        self.response = taken.response
        """The response without errors."""

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
        """Commit these offsets; commits that share a batch are one command."""
        first, count = 0, len(repeats)
        while first < count:
            end = first + 1
            if repeats[first].is_narrow:
                while end < count and repeats[end].is_narrow:
                    end += 1
            if end - first == count:
                cls._serve(node, repeats, calls, numbers)
            else:
                cls._serve(node, repeats[first:end], calls.part(first, end), numbers[first:end])
            first = end

    @classmethod
    def _serve(cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]) -> None:
        group_id = repeats[0].group_id
        command = Commits([repeat._shape for repeat in repeats], numbers)
        node.router.owner_of(group_id).submit(
            group_id, command, partial(cls._on_results, node, repeats, calls)
        )

    @staticmethod
    def _on_results(
        node: Node,
        repeats: Sequence[CommitRepeat],
        calls: RepeatedCalls,
        results: list[CommitResult] | ErrorCode,
    ) -> None:
        if isinstance(results, ErrorCode):
            for repeat, call in zip(repeats, calls, strict=True):
                repeat._answer(node, call, results)
        elif results.count(ACCEPTED) == len(results):  # the usual case
            calls.answer_written([repeat.response for repeat in repeats])
        else:
            for repeat, call, result in zip(repeats, calls, results, strict=True):
                repeat._answer(node, call, result)

    def _answer(self, node: Node, call: RepeatedCall, result: CommitResult | ErrorCode) -> None:
        if result is ACCEPTED:
            call.answer_frame(self.response.frame(call.correlation_id))
            return
        response, _, open_answers = sort_out(node, self._taken.version, self._taken.request)
        fill_in(open_answers, result)
        call.answer(response)

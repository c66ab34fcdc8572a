"""Repeated commits with other offsets, served without decoding them again.

Their partitions, member and response format were computed once. Whether the member may commit is checked
every time. Every topic must still be the same one, whether the request has its name or its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Final, Self

from headgate.api import conditional_commit
from headgate.api.authors import author_of_commit
from headgate.api.commit_messages import PreparedCommit, command_of, fill_in, sort_out
from headgate.api.contract import Call, Node, Repeat, RepeatedCalls
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

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

_RECORD_BYTES = 64
"""Maximum size of a record without the names."""
_KEPT_BYTES: Final = 800
_TOPIC_KEPT_BYTES: Final = 150
_KEPT_ONE_BY_ONE_BYTES: Final = 500
_KEPT_IN_COLUMNS_BYTES: Final = 165
"""Memory of a commit, and of each topic and partition, in bytes."""
_SHARED_BYTES: Final = 256
"""Maximum size of a response that is kept once for all equal ones."""


def commit_repeat(node: Node, call: Call, request: OffsetCommitRequest) -> Repeat | None:
    """Return the `Repeat` for this commit; None for one that may be accepted only in part, or whose author is
    recorded.
    """
    if request.retention_time_ms != NO_RETENTION or conditional_commit.is_wanted(request):
        return None
    if author_of_commit(call, request, has_conditions=False) is not None:
        return None
    version = call.api_version
    prepared: PreparedCommit | None = call.prepared
    if prepared is None:
        sorted_commit = sort_out(node, version, request)
        prepared = PreparedCommit(command_of(request, sorted_commit.wanted, version), sorted_commit)
    command = prepared.command
    if not command.topics or not prepared.sorted.is_whole:
        return None
    limit: int = node.settings["offset.metadata.max.bytes"]
    topics: list[Topic] = []
    for name, partitions in command.topics:
        if too_large_metadata(partitions, limit):
            return None
        known = node.topics.by_name(name)
        if known is not None:
            topics.append(known)
    prepared.written = response = _written(response_body(8, version, prepared.sorted.response))
    return CommitRepeat(node, command, topics, response)


_shared = lru_cache(1024)(WrittenResponse)


def _written(body: bytes) -> WrittenResponse:
    """Return a response: the same object for equal short ones, as those of many groups to one partition."""
    return _shared(body) if len(body) <= _SHARED_BYTES else WrittenResponse(body)


def _text_bytes(partitions: ToCommit) -> int:
    """Return the approximate size of the partitions' metadata."""
    if isinstance(partitions, OffsetColumns):
        return sum(map(len, partitions.texts()))
    return sum([len(one.metadata) for one in partitions])


class CommitRepeat(GroupRepeat):
    """One repeated commit; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_shape", "is_narrow", "response")

    numbers: ClassVar[tuple[str, ...]] = ("committed_offset",)

    def __init__(
        self, node: Node, command: CommitOffsets, topics: Sequence[Topic], response: WrittenResponse
    ) -> None:
        """`response` is that to the command without errors."""
        weight_bytes, kept_bytes = 0, _KEPT_BYTES
        for topic, partitions in command.topics:
            count = partition_count(partitions)
            weight_bytes += count * (len(command.group_id) + len(topic) + _RECORD_BYTES)
            weight_bytes += _text_bytes(partitions)
            is_wide = isinstance(partitions, OffsetColumns)
            kept_bytes += _TOPIC_KEPT_BYTES
            kept_bytes += count * (_KEPT_IN_COLUMNS_BYTES if is_wide else _KEPT_ONE_BY_ONE_BYTES)
        super().__init__(node, command.group_id, topics, weight_bytes)
        self.kept_bytes = kept_bytes
        self._shape = shape_of(command)
        self.is_narrow = self._shape.records is not None
        """Whether it can share a batch with other commits of a turn; one in columns is a batch of its own."""
        self.response = response

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
        if not isinstance(results, ErrorCode) and results.count(ACCEPTED) == len(results):
            calls.answer_written([repeat.response for repeat in repeats])  # the usual case
            return
        for index, call in enumerate(calls):
            result = results if isinstance(results, ErrorCode) else results[index]
            if result is ACCEPTED:
                call.answer_frame(repeats[index].response.frame(call.correlation_id))
            else:
                sorted_commit = sort_out(node, call.api_version, calls.request_at(index))
                fill_in(sorted_commit.open_answers, result)
                call.answer(sorted_commit.response)

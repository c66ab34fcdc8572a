"""OffsetCommit with conditions: "set x if and only if the committed offset is y" (R3.16).

A partition of the request carries y as the tagged field `expected_offset`; -1 expects that nothing is
committed. Then the request is all or nothing, whatever stands in the way, and an x of -1 removes the offset.
If nothing is done, partitions get

    INVALID_UPDATE_VERSION        its condition failed; the tagged field `current_offset` is what is committed
    UNKNOWN_TOPIC_OR_PARTITION    it could not be committed in any case; likewise UNKNOWN_TOPIC_ID (from
                                  version 10) and OFFSET_METADATA_TOO_LARGE
    OPERATION_NOT_ATTEMPTED       nothing is wrong with it

and where the group refuses the member, all have the group's error, as without conditions. A node that knows
this advertises FEATURE: one that does not would skip the field and commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.api.commit_messages import Wanted, columns_of, command_of
from headgate.api.contract import Call, Node
from headgate.api.group_answers import error_of
from headgate.api.offset_topics import find_topic, unknown_topic_error
from headgate.core.offsets.commands import (
    CommitResult,
    Conditions,
    Moved,
    OffsetColumns,
    OffsetToCommit,
    Place,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.features import CONDITIONAL_COMMIT
from headgate.domain.ids import TopicName
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.wide import NARROWEST_WIDE, Int64s, WideParts, WideStructs

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

FEATURE = CONDITIONAL_COMMIT
SINCE_VERSION = 8
_NOTHING_MOVED = Moved(np.empty(0, np.int64), np.empty(0, np.int64))
ANY_COUNT = 1 << 31
"""Of partitions, where it is known that they exist."""


def is_wanted(request: OffsetCommitRequest) -> bool:
    """Whether a partition of the request has a condition."""
    for topic in request.topics:
        partitions = topic.partitions
        if isinstance(partitions, WideStructs):
            if partitions.template.expected_offset is not None:
                return True
        elif any(partition.expected_offset is not None for partition in partitions):
            return True
    return False


def handle(node: Node, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Answer with an error for each partition, in the order asked."""
    topics = [find_topic(node, call.api_version, topic) for topic in request.topics]
    unknown = _unknown(request, topics, unknown_topic_error(call.api_version))
    if unknown:
        return _not_done(request, unknown, ())

    def on_result(result: Any) -> None:
        if isinstance(result, CommitResult) and not result.is_attempted:
            too_large = dict.fromkeys(result.too_large, ErrorCode.OFFSET_METADATA_TOO_LARGE)
            call.answer(_not_done(request, too_large, result.moved))
        else:
            call.answer(_alike(request, error_of(result)))

    wanted: Wanted = []
    expected: list[Conditions] = []
    for topic, known in zip(request.topics, topics, strict=True):
        partitions, conditions = _of_topic(topic.partitions)
        # A topic that is not there is named without partitions: it only keeps the place of the others.
        wanted.append((TopicName(topic.name) if known is None else known.name, partitions))
        expected.append(conditions)
    command = command_of(request, wanted, call.api_version)
    command.expected = expected
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)
    return None


def _unknown(
    request: OffsetCommitRequest, topics: Sequence[Topic | None], unknown_topic: ErrorCode
) -> dict[Place, ErrorCode]:
    """The partitions that do not exist, with their error."""
    unknown: dict[Place, ErrorCode] = {}
    for number, (topic, known) in enumerate(zip(request.topics, topics, strict=True)):
        if known is None:
            unknown |= {(number, index): unknown_topic for index in range(len(topic.partitions))}
        elif columns_of(topic.partitions, known.partition_count) is None:
            for index, partition in enumerate(topic.partitions):
                if not 0 <= partition.partition_index < known.partition_count:
                    unknown[number, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return unknown


def _of_topic(
    partitions: Sequence[OffsetCommitRequestPartition],
) -> tuple[list[OffsetToCommit] | OffsetColumns, Conditions]:
    """What is to be committed, and the conditions; both in columns, or neither. All partitions exist."""
    if isinstance(partitions, WideStructs):
        expected = partitions.columns.get("expected_offset")
        columns = columns_of(partitions, ANY_COUNT)
        if expected is not None and columns is not None:
            return columns, expected
    to_commit = [
        OffsetToCommit(
            one.partition_index,
            one.committed_offset,
            one.committed_leader_epoch,
            one.committed_metadata or "",
        )
        for one in partitions
    ]
    return to_commit, {
        index: one.expected_offset for index, one in enumerate(partitions) if one.expected_offset is not None
    }


def _alike(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Every partition has the same answer."""
    answer = OffsetCommitResponsePartition(error_code=error)
    topics = []
    for topic in request.topics:
        if isinstance(topic.partitions, WideStructs):
            indexes = topic.partitions.columns["partition_index"]
            answers: Any = WideStructs(answer, {"partition_index": indexes})
        else:
            answers = [
                OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
                for one in topic.partitions
            ]
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return OffsetCommitResponse(topics=topics)


def _not_done(
    request: OffsetCommitRequest, errors: Mapping[Place, ErrorCode], moved: Sequence[Moved]
) -> OffsetCommitResponse:
    """What has moved, and these other errors; of the rest nothing is said but that nothing was done."""
    codes = [np.full(len(topic.partitions), ErrorCode.OPERATION_NOT_ATTEMPTED) for topic in request.topics]
    for (number, index), error in errors.items():
        codes[number][index] = error
    topics = []
    for topic, errors_of_topic, moved_of_topic in zip_longest(request.topics, codes, moved):
        answers = _Answers(topic.partitions, errors_of_topic, moved_of_topic or _NOTHING_MOVED)
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=WideParts(answers.parts()),  # type: ignore[arg-type]
            )
        )
    return OffsetCommitResponse(topics=topics)


class _Answers:
    """The answers for the partitions of one topic: stretches with a current offset, and without."""

    def __init__(
        self, partitions: Sequence[OffsetCommitRequestPartition], errors: Int64s, moved: Moved
    ) -> None:
        if isinstance(partitions, WideStructs):
            self._numbers: Int64s = partitions.columns["partition_index"]
        else:
            self._numbers = np.array([one.partition_index for one in partitions], np.int64)
        errors[moved.indexes] = ErrorCode.INVALID_UPDATE_VERSION
        self._errors = errors
        self._current = np.zeros(len(errors), np.int64)
        self._current[moved.indexes] = moved.offsets
        self._has_current = np.zeros(len(errors), np.bool_)
        self._has_current[moved.indexes] = True

    def parts(self) -> list[Sequence[OffsetCommitResponsePartition]]:
        """All answers in order; narrow stretches are single ones."""
        ends = np.flatnonzero(self._has_current[1:] != self._has_current[:-1]) + 1
        parts: list[Sequence[OffsetCommitResponsePartition]] = []
        single: list[OffsetCommitResponsePartition] = []
        first = 0
        for end in (*ends.tolist(), len(self._errors)):
            if end - first < NARROWEST_WIDE:
                single += self._each(first, end)
            else:
                parts += [single, self._stretch(first, end)]
                single = []
            first = end
        return [*parts, single]

    def _stretch(self, first: int, end: int) -> WideStructs[OffsetCommitResponsePartition]:
        rows = slice(first, end)
        columns = {"partition_index": self._numbers[rows], "error_code": self._errors[rows]}
        if not self._has_current[first]:
            return WideStructs(OffsetCommitResponsePartition(), columns)
        columns["current_offset"] = self._current[rows]
        return WideStructs(OffsetCommitResponsePartition(current_offset=0), columns)

    def _each(self, first: int, end: int) -> Iterator[OffsetCommitResponsePartition]:
        rows = slice(first, end)
        columns = zip(
            self._numbers[rows].tolist(),
            self._errors[rows].tolist(),
            self._current[rows].tolist(),
            self._has_current[rows].tolist(),
            strict=True,
        )
        for number, error, current, has_current in columns:
            yield OffsetCommitResponsePartition(
                partition_index=number, error_code=error, current_offset=current if has_current else None
            )

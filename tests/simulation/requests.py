"""The requests of simulated clients, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fetched import in_full

from headgate.core.offsets.commands import (
    NO_RETENTION,
    NOTHING_COMMITTED,
    CommitOffsets,
    CommitShape,
    ExpectedOffsets,
    FetchedColumns,
    FetchedNumbers,
    FetchedOffsets,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
)
from headgate.core.offsets.commit import shape_of
from headgate.core.offsets.stored import StoredOffset
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis

RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)

OnResult = Callable[[Any], None]


class Violation(Exception):
    """The server broke a promise. Raised to end a simulation, never by the server."""


@dataclass(slots=True, eq=False)
class Request:
    """One request at the server: its arrival in seconds and as milliseconds since the epoch."""

    number: int
    """In the order of arrival."""
    group_id: str
    shard: int
    command: Any
    arrived_at: float
    arrived_ms: int
    on_result: OnResult
    is_answered: bool = False


def error_of(result: Any) -> ErrorCode:
    """Return the error of a result."""
    if isinstance(result, ErrorCode):
        return result
    error = getattr(result, "error", ErrorCode.NONE)
    assert isinstance(error, ErrorCode)
    return error


def only(results: Any) -> Any:
    """Return the one result of commands served together, or their common error."""
    if isinstance(results, ErrorCode):
        return results
    (result,) = results
    return result


def is_plain(commit: CommitOffsets) -> bool:
    """Return whether a commit can be repeated with other offsets: few partitions, without metadata."""
    if commit.retention_ms != NO_RETENTION or commit.expected is not None:
        return False
    for _, partitions in commit.topics:
        if isinstance(partitions, OffsetColumns) or any(one.metadata for one in partitions):
            return False
    return True


def without_offsets(commit: CommitOffsets) -> tuple[CommitShape, list[int]]:
    """Return the shape of a plain commit, and its offsets."""
    offsets = []
    topics: list[Any] = []
    for topic, partitions in commit.topics:
        assert not isinstance(partitions, OffsetColumns)
        topics.append((topic, [one._replace(offset=0) for one in partitions]))
        offsets += [one.offset for one in partitions]
    return shape_of(replace(commit, topics=topics)), offsets


def fetched_one_by_one(command: FetchOffsets, result: Any) -> Any:
    """Return the result of a fetch of named partitions as single offsets, whatever its form."""
    result = in_full(result)
    if isinstance(result, FetchedNumbers):
        numbers = zip(result.offsets, result.leader_epochs, strict=True)
        return FetchedOffsets(
            [(topic, _each(partitions, numbers)) for topic, partitions in command.topics or ()]
        )
    if isinstance(result, FetchedOffsets):
        return FetchedOffsets(
            [
                (topic, _of_columns(found) if isinstance(found, FetchedColumns) else found)
                for topic, found in result.topics
            ]
        )
    return result


def _of_columns(found: FetchedColumns) -> list[tuple[int, Any]]:
    texts = found.metadata or [""] * len(found.partitions)
    each = _each(found.partitions, zip(found.offsets, found.leader_epochs, strict=True))
    return [
        (partition, stored and stored._replace(metadata=text))
        for (partition, stored), text in zip(each, texts, strict=True)
    ]


def _each(partitions: Iterable[Any], numbers: Iterator[tuple[Any, Any]]) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for partition in partitions:
        offset, epoch = map(int, next(numbers))
        stored = StoredOffset(offset, epoch, "", Millis(-1), Millis(-1))
        found.append((int(partition), None if offset == NOTHING_COMMITTED else stored))
    return found


def expected_at(conditions: ExpectedOffsets, index: int) -> int | None:
    """Return the offset expected in a partition; None if there is no condition on it."""
    expected: dict[int, int] = dict(
        zip(conditions.indexes.tolist(), conditions.offsets.tolist(), strict=True)
    )
    return expected.get(index)


def each_to_commit(partitions: Sequence[OffsetToCommit] | OffsetColumns) -> Sequence[OffsetToCommit]:
    """Return the partitions of a commit one by one."""
    return partitions.each() if isinstance(partitions, OffsetColumns) else partitions

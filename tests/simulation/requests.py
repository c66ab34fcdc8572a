"""What a simulated client asked, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.offsets.commands import OffsetColumns, OffsetToCommit
from headgate.domain.errors import ErrorCode

RETRIABLE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

OnResult = Callable[[Any], None]


class Violation(Exception):
    """The server broke a promise. Raised to end a simulation, never by the server."""


@dataclass(slots=True, eq=False)
class Request:
    """One request at the server's edge: when it arrived, in seconds and as milliseconds since the epoch."""

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
    """The error a result amounts to."""
    if isinstance(result, ErrorCode):
        return result
    error = getattr(result, "error", ErrorCode.NONE)
    assert isinstance(error, ErrorCode)
    return error


def each_to_commit(partitions: Sequence[OffsetToCommit] | OffsetColumns) -> Sequence[OffsetToCommit]:
    """The partitions of a commit one by one."""
    return partitions.each() if isinstance(partitions, OffsetColumns) else partitions

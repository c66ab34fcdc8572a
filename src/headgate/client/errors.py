"""What can go wrong between a client and a cluster, told apart so that a caller knows what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Generic, TypeVar

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicPartition

PartT = TypeVar("PartT")

TOLD_OF = 3
"""Of how many parts that were refused a message tells."""

RETRIABLE = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Codes that may be gone when one asks again, perhaps another node.

An unknown topic is not among them: whoever misspelt a name should hear of it at once.
"""


class ClientError(Exception):
    """Base of what this client raises."""


class ConnectionFailed(ClientError):
    """No connection to the address: nobody listens, the name is unknown, or the other side closed it."""


class NoNodeReachable(ConnectionFailed):
    """None of the bootstrap servers can be connected to."""


class RequestTimedOut(ClientError):
    """No answer within the time the caller gave."""


class VersionNotSupported(ClientError):
    """The API, or every version of it that would do, is missing on the other side."""


class BadResponse(ClientError):
    """The other side answered with bytes that are not the response to the request."""


class RequestRefused(ClientError):
    """The answer was an error code; `code` is its number, `error` its name where it has one here."""

    def __init__(self, what: str, code: int, reason: str | None = None) -> None:
        self.code = code
        self.error = ErrorCode(code) if code in ErrorCode._value2member_map_ else None
        name = self.error.name if self.error is not None else f"error {code}"
        super().__init__(f"{what}: {name}{f' ({reason})' if reason else ''}")

    @property
    def is_retriable(self) -> bool:
        """Whether asking again may help."""
        return self.error in RETRIABLE


class PartlyRefused(ClientError, Generic[PartT]):
    """Some parts of a request were refused: `refused` says which and why; the others were done.

    The message tells of the first few.
    """

    def __init__(self, refused: Mapping[PartT, RequestRefused]) -> None:
        self.refused = refused
        first = [str(error) for error in islice(refused.values(), TOLD_OF)]
        rest = len(refused) - len(first)
        super().__init__("; ".join(first) + (f"; and {rest} more" if rest else ""))


class OutcomeUnknown(ClientError):
    """The answer was lost, or says that the node failed meanwhile: what was asked for may be done or not.

    It is not asked for again, as that would be answered by what the first time did.
    """


class OffsetsMoved(ClientError):
    """Nothing was committed, as offsets are not what was expected of them.

    `current` has what is committed in those partitions, None where nothing is; `expected` what was expected.
    """

    def __init__(
        self,
        group_id: GroupId,
        current: Mapping[TopicPartition, int | None],
        expected: Mapping[TopicPartition, int | None],
    ) -> None:
        self.group_id = group_id
        self.current = current
        self.expected = {partition: expected[partition] for partition in current}
        first = [
            f"{partition} is at {_offset(offset)}, not at {_offset(expected[partition])}"
            for partition, offset in islice(current.items(), TOLD_OF)
        ]
        rest = len(current) - len(first)
        super().__init__(f"group {group_id}: {'; '.join(first)}{f'; and {rest} more' if rest else ''}")


def _offset(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)


def check(what: str, code: int, reason: str | None = None) -> None:
    """Raise `RequestRefused` unless the code is that of success."""
    if code != ErrorCode.NONE:
        raise RequestRefused(what, code, reason)


def check_parts(codes: Mapping[PartT, int], what: str) -> None:
    """Raise for the codes that are not that of success; `what` is put before a part's name.

    One that may pass is raised alone, as `RequestRefused`, so that all is tried again; the others together as
    `PartlyRefused`.
    """
    refused = {
        part: RequestRefused(f"{what} {part}", code) for part, code in codes.items() if code != ErrorCode.NONE
    }
    for error in refused.values():
        if error.is_retriable:
            raise error
    if refused:
        raise PartlyRefused(refused)

"""The errors of the client. Each class calls for another reaction of the caller."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    PartT = TypeVar("PartT", default=Any)  # so that `except PartlyRefused` is of a known type
else:
    from typing import TypeVar

    PartT = TypeVar("PartT")

MOST_NAMED = 3
"""How many refused parts an error message names."""

RETRIABLE = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Error codes for which the client sends a request again, possibly to another node.

UNKNOWN_TOPIC_OR_PARTITION is not among them, so that a misspelt name is reported immediately.
"""


class ClientError(Exception):
    """Base class of the client's errors. They can be pickled, as results of other processes are."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the message and the attributes: exceptions are made of their arguments otherwise."""
        return _unpickled, (type(self), *self.args), self.__dict__


def _unpickled(kind: type[ClientError], *args: object) -> ClientError:
    return kind.__new__(kind, *args)


class ConnectionFailed(ClientError):
    """No connection to an address: no server listens, the host is unknown, or the node closed it."""


class AnswerLost(ConnectionFailed):
    """The node closed the connection before it answered a change, which it may have carried out."""


class NoNodeReachable(ConnectionFailed):
    """No bootstrap server can be reached."""


class TlsFailed(ClientError):
    """No encrypted connection to an address: a certificate is not accepted, or one side does not use TLS."""


class TlsInterrupted(ConnectionFailed, TlsFailed):
    """The other side closed the connection during the handshake: it is stopping, or does not use TLS."""


class AuthenticationFailed(ClientError):
    """A node did not accept the credentials, or there are none: no token, or a mechanism that it lacks."""


class AuthenticationInterrupted(ConnectionFailed, AuthenticationFailed):
    """There is no token at the moment: the server of tokens does not answer."""


class RequestTimedOut(ClientError):
    """No response within the timeout."""


class VersionNotSupported(ClientError):
    """The node does not support the API, or none of the needed versions."""


class Unsendable(ClientError):
    """A text that no request can have: it is too long, or not Unicode."""


class BadResponse(ClientError):
    """The node sent bytes that are not a response to the request."""


class RequestRefused(ClientError):
    """The response has an error code: `error` is an `ErrorCode`, None if the code is unknown here.

    Compare it with `ErrorCode.GROUP_ID_NOT_FOUND` and the like; `error.name` is its name, a str. `code` is
    the number, also of an unknown code, and `reason` the broker's text, if it sent one.
    """

    def __init__(self, what: str, code: int, reason: str | None = None) -> None:
        self.code = code
        self.reason = reason
        self.error = ErrorCode(code) if code in ErrorCode._value2member_map_ else None
        name = self.error.name if self.error is not None else f"error {code}"
        super().__init__(f"{what}: {name}{f' ({reason})' if reason else ''}")

    @property
    def is_retriable(self) -> bool:
        """Whether the request can succeed if it is sent again."""
        return self.error in RETRIABLE


class PartlyRefused(ClientError, Generic[PartT]):
    """Some parts of a request were refused: `refused` has the error of each. The other parts were done.

    The message names the first few.
    """

    def __init__(self, refused: Mapping[PartT, RequestRefused]) -> None:
        self.refused = refused
        first = [str(error) for error in islice(refused.values(), MOST_NAMED)]
        rest = len(refused) - len(first)
        super().__init__("; ".join(first) + (f"; and {rest} more" if rest else ""))


class OutcomeUnknown(ClientError):
    """The response was lost, or says that the node failed: it is unknown whether the request was executed.

    The client does not send the request again, because its conditions would be compared with its own result.
    """


class OffsetsMoved(ClientError):
    """A conditional commit failed: committed offsets differ from the expected ones. Nothing was committed.

    `current` and `expected` have the offsets of the partitions that differ; None means no committed offset.
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
            for partition, offset in islice(current.items(), MOST_NAMED)
        ]
        rest = len(current) - len(first)
        super().__init__(f"group {group_id}: {'; '.join(first)}{f'; and {rest} more' if rest else ''}")


def _offset(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)


def check(what: str, code: int, reason: str | None = None) -> None:
    """Raise `RequestRefused` unless the code is NONE."""
    if code != ErrorCode.NONE:
        raise RequestRefused(what, code, reason)


def check_parts(codes: Mapping[PartT, int], what: str) -> None:
    """Raise an error for codes other than NONE. Messages have `what` before a part's name.

    If a code is retriable, raise `RequestRefused`, so that the whole request is sent again. Otherwise raise
    one `PartlyRefused`.
    """
    refused = {
        part: RequestRefused(f"{what} {part}", code) for part, code in codes.items() if code != ErrorCode.NONE
    }
    for error in refused.values():
        if error.is_retriable:
            raise error
    if refused:
        raise PartlyRefused(refused)

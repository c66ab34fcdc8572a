"""What can go wrong between a client and a cluster, told apart so that a caller knows what to do about it."""

from __future__ import annotations

from headgate.domain.errors import ErrorCode

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


def check(what: str, code: int, reason: str | None = None) -> None:
    """Raise `RequestRefused` unless the code is that of success."""
    if code != ErrorCode.NONE:
        raise RequestRefused(what, code, reason)

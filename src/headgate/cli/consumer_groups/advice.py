"""Errors in words, with what to do next."""

from __future__ import annotations

from headgate.admin import (
    AlreadyUndone,
    ClientError,
    GroupIsActive,
    HistoryUnknown,
    NotReleased,
    OffsetsMoved,
    OutcomeUnknown,
    PartlyRefused,
    RequestRefused,
    TopicGone,
)
from headgate.client.errors import NoNodeReachable, RequestTimedOut, VersionNotSupported
from headgate.domain.errors import ErrorCode

_STOP_THEM = (
    "stop its members first (`headgate consumer-groups --describe --members --group GROUP` lists them); one "
    "that died or is away is gone after its session timeout"
)
_REWIND = (
    "`headgate consumer-groups --rewind`, with the same options, does it while the group runs; or stop its "
    "members first"
)
_WAIT = "wait until their owners have released them (--paused-partitions shows it), then try again"
_NOT_LOADED = (
    "the server still reads the log of these groups, or cannot read or write it: try again, and look into "
    "the server's own log if it stays so"
)
_BY_CODE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _NOT_LOADED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _NOT_LOADED,
    ErrorCode.NON_EMPTY_GROUP: _STOP_THEM,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members read this topic: stop them first",
    ErrorCode.UNKNOWN_TOPIC_ID: "the topic was deleted meanwhile, so nothing of the group was changed",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group got members meanwhile: stop them first",
}


def in_words(error: ClientError) -> str:
    """The error and what to do about it, on one line."""
    if isinstance(error, PartlyRefused):
        advice = _advice(next(iter(error.refused.values())))
    else:
        advice = _advice(error)
    return f"{error}; {advice}" if advice else str(error)


def _advice(error: ClientError) -> str | None:
    if isinstance(error, GroupIsActive):
        return _REWIND if error.unpaused else _WAIT if error.unreleased else _STOP_THEM
    if isinstance(error, NotReleased):
        return (
            "its owner has not answered: it is removed when its rebalance timeout ends; --paused-partitions "
            "shows who holds on"
        )
    if isinstance(error, VersionNotSupported):
        return _STOP_THEM if "Pause" in str(error) else None
    if isinstance(error, OffsetsMoved):
        return "somebody moved it meanwhile, so nothing of the group was changed; look again"
    if isinstance(error, AlreadyUndone):
        return "--redo makes that change again; --to-offsets-as-of goes back further"
    if isinstance(error, TopicGone):
        return "--history shows what they were; --topic with other topics leaves them out"
    if isinstance(error, HistoryUnknown):
        return (
            "it was compacted away and its history is gone or was never kept; --history shows what is known"
        )
    if isinstance(error, OutcomeUnknown):
        return "--describe shows it"
    if isinstance(error, NoNodeReachable):
        return "is a server running there? --bootstrap-server names another"
    if isinstance(error, RequestTimedOut):
        return "--timeout gives it longer"
    if isinstance(error, RequestRefused) and error.error is not None:
        return _BY_CODE.get(error.error)
    return None

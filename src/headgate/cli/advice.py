"""Error messages with advice."""

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
from headgate.admin.errors import IsShareGroup
from headgate.cli.absent_groups import of_other_kind
from headgate.client.errors import NoNodeReachable, RequestTimedOut, VersionNotSupported
from headgate.domain.errors import ErrorCode

_STOP_THEM = (
    "stop its members first (`headgate {command} --describe --members --group GROUP` lists them); the "
    "coordinator removes a failed member after its session timeout"
)
_REWIND = (
    "`headgate consumer-groups --rewind` sets offsets while the group runs (its targets: --to-offset, "
    "--to-datetime, --from-file and others); or stop its members first"
)
_WITHOUT_PAUSES = "stop its members, then set offsets with `headgate {command} --reset-offsets`"
_WAIT = "wait until their owners have released them (--paused-partitions shows it), then try again"
_NOT_RELEASED = {
    "consumer-groups": (
        "its owner has not answered: it is removed when its session or its rebalance timeout ends; "
        "--paused-partitions shows the owner"
    ),
    "share-groups": (
        "a member has records until it acknowledges them or their locks end: --records shows them, --release "
        "takes them back; without an owner dead letters cannot be written: the server's log says why"
    ),
}
_NOT_LOADED = (
    "the server is still loading the log of these groups, or cannot read or write it: try again, and if the "
    "error persists, see the server's log"
)
_BY_CODE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _NOT_LOADED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _NOT_LOADED,
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker cannot read or write this log: its own log says why",
    ErrorCode.NON_EMPTY_GROUP: _STOP_THEM,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members are subscribed to this topic: stop them first",
    ErrorCode.CORRUPT_MESSAGE: (
        "a batch of this log is damaged: `headgate log verify` names it, and a reset of the group passes it"
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`headgate topics --describe` lists topics and partitions",
    ErrorCode.UNKNOWN_TOPIC_ID: "the topic was deleted in the meantime, so nothing was changed",
    ErrorCode.CONCURRENT_TRANSACTIONS: "its last transaction is still being ended: try again",
    ErrorCode.INVALID_PRODUCER_EPOCH: (
        "the partition knows another epoch of this producer: `headgate transactions describe-producers` "
        "shows it"
    ),
    ErrorCode.INVALID_REGULAR_EXPRESSION: "the syntax is that of RE2",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members now: stop them first",
}


def in_words(error: ClientError, command: str = "consumer-groups") -> str:
    """Return the error, the advice for it and its notes, on one line; `command` is the one that describes the
    groups.
    """
    if isinstance(error, IsShareGroup):
        return with_notes(of_other_kind(error.group_id, is_share=True), error)
    if isinstance(error, PartlyRefused):
        advice = _advice(next(iter(error.refused.values())), command)
    else:
        advice = _advice(error, command)
    return with_notes(f"{error}; {advice.format(command=command)}" if advice else str(error), error)


def of_group_in_words(group_id: str, error: ClientError) -> str:
    """Return the message of an error of a group, which is named: a lost connection knows no group."""
    return f"group {group_id}: {in_words(error)}" if isinstance(error, OutcomeUnknown) else in_words(error)


def with_notes(text: str, error: BaseException) -> str:
    """Return a text with the notes of an error, on one line."""
    return "; ".join([text, *notes_of(error)])


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an error."""
    return list(getattr(error, "__notes__", ()))


def _advice(error: ClientError, command: str) -> str | None:
    if isinstance(error, GroupIsActive):
        return _REWIND if error.unpaused else _WAIT if error.unreleased else _STOP_THEM
    if isinstance(error, NotReleased):
        return _NOT_RELEASED.get(command)
    if isinstance(error, VersionNotSupported):
        return _WITHOUT_PAUSES if "Pause" in str(error) else None
    if isinstance(error, OffsetsMoved):
        return "another client changed it in the meantime, so this command changed nothing; run it again"
    if isinstance(error, AlreadyUndone):
        return "--undo --redo repeats that change; --reset-offsets --to-offsets-as-of restores older offsets"
    if isinstance(error, TopicGone):
        return "--history shows them; to exclude this topic, name the others with --topic"
    if isinstance(error, HistoryUnknown):
        return "the history was deleted or never kept; --history shows the known changes"
    if isinstance(error, OutcomeUnknown):
        return "--describe shows the committed offsets"
    if isinstance(error, NoNodeReachable):
        return (
            "check that a server is running there and has a free connection (max.connections), or use "
            "another --bootstrap-server"
        )
    if isinstance(error, RequestTimedOut):
        return "try again with a greater --timeout"
    if isinstance(error, RequestRefused) and error.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None if error.reason else "`headgate topics --list` lists all topics"
    if isinstance(error, RequestRefused) and error.error is not None:
        return _BY_CODE.get(error.error)
    return None

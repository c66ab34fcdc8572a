"""The records of `__consumer_offsets_history` in words, and their check."""

from __future__ import annotations

from typing import Any

from headgate.domain.ids import Millis
from headgate.inspect.wording import time_text
from headgate.log.batch import Record
from headgate.records import ChangeAuthor, MalformedRecord, OffsetCommit, OffsetTombstone, decode
from headgate.records.history import Origin, decode_mark, origin_of

Json = dict[str, Any]


def mark_as_json(known_since: Millis) -> Json:
    """Return the mark of a history as JSON."""
    since = "is complete" if known_since < 0 else f"is complete since {time_text(known_since)}"
    return {
        "kind": "history-mark",
        "words": f"mark: the history {since}",
        "known_since": None if known_since < 0 else known_since,
    }


def origin_as_json(origin: Origin | None) -> Json | None:
    """Return the offset and timestamp of a record in the coordinator's log as JSON."""
    return None if origin is None else {"offset": origin.offset, "timestamp": origin.timestamp}


def why_no_history(record: Record) -> str | None:
    """Return what is wrong with a record of the history; None if it is a valid one."""
    if decode_mark(record.key, record.value) is not None:
        return None
    try:
        decoded = decode(record.key, record.value)
    except MalformedRecord as problem:
        return str(problem)
    if not isinstance(decoded, OffsetCommit | OffsetTombstone | ChangeAuthor):
        return "it is not the record of an offset or of the author of a change"
    origin = origin_of(record.headers)
    if origin is None or origin.offset < 0:
        return "it does not have its offset in the log"
    return None

"""The records of `__consumer_offsets_history`, in words, and what must be so of each."""

from __future__ import annotations

from typing import Any

from headgate.domain.ids import Millis
from headgate.inspect.wording import time_text
from headgate.log.batch import Record
from headgate.records import MalformedRecord, OffsetCommit, OffsetTombstone, decode
from headgate.records.history import Origin, decode_mark, origin_of

Json = dict[str, Any]


def mark_as_json(known_since: Millis) -> Json:
    """What the first record of a history says."""
    since = "ever" if known_since < 0 else time_text(known_since)
    return {
        "kind": "history-mark",
        "words": f"mark: nothing is missing of what was in force since {since}",
        "known_since": None if known_since < 0 else known_since,
    }


def origin_as_json(origin: Origin | None) -> Json | None:
    """Where a record stood in the coordinator's log, and its timestamp there."""
    return None if origin is None else {"offset": origin.offset, "timestamp": origin.timestamp}


def why_no_history(record: Record) -> str | None:
    """What is wrong with a record of the history; None for a mark, and for a moved commit or removal."""
    if decode_mark(record.key, record.value) is not None:
        return None
    try:
        decoded = decode(record.key, record.value)
    except MalformedRecord as problem:
        return str(problem)
    if not isinstance(decoded, OffsetCommit | OffsetTombstone):
        return "it is of no offset"
    origin = origin_of(record.headers)
    if origin is None or origin.offset < 0:
        return "it does not say where it stood in the log"
    return None

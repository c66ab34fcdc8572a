"""The records of `__share_group_state` in words and as JSON values."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from headgate.domain.ids import Millis, topic_id_text
from headgate.domain.wording import counted
from headgate.inspect.wording import quoted
from headgate.records.errors import MalformedRecord
from headgate.records.share_batches import StateBatches
from headgate.records.share_state import decode_share
from headgate.records.share_state_model import (
    UNCHANGED,
    UNKNOWN_COUNT,
    ShareKey,
    ShareSnapshot,
    ShareTombstone,
    ShareUpdate,
    UnknownShareRecord,
)

Json = dict[str, Any]

_MOST_BATCHES: Final = 100
"""Batches that are listed; there may be a million."""


def share_state_record(key: bytes | None, value: bytes | None) -> Json:
    """Return a record as JSON; `words` is a sentence."""
    try:
        record = decode_share(key, value, Millis(0))
    except MalformedRecord as problem:
        return {"kind": "malformed", "words": f"cannot be decoded: {problem}"}
    match record:
        case UnknownShareRecord():
            words = "a record of a key type which this version does not know"
            return {"kind": "unknown", "words": words}
        case ShareTombstone(share_key):
            words = f"tombstone: {_subject(share_key)} has no state any more"
            return {"kind": "share-state-tombstone", "words": words, **_key(share_key)}
        case ShareSnapshot():
            words = f"{_subject(record.key)} begins at {record.start_offset} with {_count(record.batches)}"
            return {
                "kind": "share-snapshot",
                "words": words,
                **_key(record.key),
                "snapshot_epoch": record.snapshot_epoch,
                "state_epoch": record.state_epoch,
                "leader_epoch": record.leader_epoch,
                "start_offset": record.start_offset,
                "delivery_complete_count": _known(record.delivery_complete_count, UNKNOWN_COUNT),
                "created": record.created,
                "written": record.written,
                **_mark(record),
                **_batches(record.batches),
            }
        case ShareUpdate():
            moved = "" if record.start_offset == UNCHANGED else f" begins at {record.start_offset} and"
            words = f"{_subject(record.key)}{moved} is updated with {_count(record.batches)}"
            return {
                "kind": "share-update",
                "words": words,
                **_key(record.key),
                "snapshot_epoch": record.snapshot_epoch,
                "leader_epoch": record.leader_epoch,
                "start_offset": _known(record.start_offset, UNCHANGED),
                "delivery_complete_count": _known(record.delivery_complete_count, UNKNOWN_COUNT),
                **_mark(record),
                **_batches(record.batches),
            }


def _subject(key: ShareKey) -> str:
    return f"{quoted(key.group_id)} in partition {key.partition} of topic {topic_id_text(key.topic_id)}"


def _key(key: ShareKey) -> Json:
    return {"group": key.group_id, "topic_id": topic_id_text(key.topic_id), "partition": key.partition}


def _mark(record: ShareSnapshot | ShareUpdate) -> Json:
    """Return where the dead letters are, of a record that says so."""
    if record.dead_letters is None:
        return {}
    topic_id, partition, offset = record.dead_letters
    where = {"topic_id": topic_id_text(topic_id), "partition": partition, "from_offset": offset}
    return {"dead_letters": where}


def _known(number: int, unknown: int) -> int | None:
    return None if number == unknown else number


def _count(batches: StateBatches) -> str:
    return counted(len(batches), "state batch", "state batches")


def _batches(batches: StateBatches) -> Json:
    listed = [
        {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": count}
        for first, last, state, count in islice(batches, _MOST_BATCHES)
    ]
    return {"batch_count": len(batches), "batches": listed}

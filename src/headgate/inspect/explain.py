"""Batches and records in words and as JSON values.

The JSON values are a stable interface of the command line: names are always present and never removed. Sizes
are in bytes, times in ms since the epoch, and a missing value is null.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from headgate.domain.ids import (
    GROUP_OFFSETS_TOPIC,
    OFFSETS_HISTORY_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ZERO_TOPIC_ID,
    topic_id_text,
)
from headgate.domain.wording import counted
from headgate.inspect.consumer_records import consumer_record
from headgate.inspect.history_records import mark_as_json, origin_as_json
from headgate.inspect.paused_records import paused_record
from headgate.inspect.reading import FoundBatch
from headgate.inspect.share_records import share_record
from headgate.inspect.share_state_records import share_state_record
from headgate.inspect.transaction_records import transaction_record
from headgate.inspect.wording import plain, quoted, time_text
from headgate.log.batch import Record
from headgate.records import (
    ChangeAuthor,
    GroupMember,
    GroupMetadata,
    GroupTombstone,
    MalformedRecord,
    OffsetCommit,
    OffsetTombstone,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    UnknownRecord,
    decode,
)
from headgate.records.history import decode_mark, origin_of
from headgate.records.runs import run_place
from headgate.records.share_group_model import is_share_group_record

Json = dict[str, Any]
Meaning = Callable[[Record], Json]
"""Explains a record of a coordinator's log; `words` is a sentence."""

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_DELETE_HORIZON: Final = 0x40
_MARKER_KEY: Final = Struct(">hh")
_MARKER_VALUE: Final = Struct(">hi")
_MARKERS: Final = {0: "ABORT", 1: "COMMIT"}


def batch_as_json(found: FoundBatch) -> Json:
    """Return a batch's header as JSON, with its position and whether its checksum is right."""
    header = found.header
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "position": found.position,
        "timestamp_type": "LogAppendTime" if header.uses_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "codec": CODECS[header.codec] if header.codec < len(CODECS) else f"unknown ({header.codec})",
        "delete_horizon_ms": header.base_timestamp if header.attributes & _DELETE_HORIZON else None,
        "crc": header.crc,
        "crc_ok": found.computed_crc() == header.crc,
    }


def record_as_json(found: FoundBatch, offset: int, record: Record, *, meaning: Meaning | None) -> Json:
    """Return a record as JSON, without key and value; `meaning` explains a record of a coordinator."""
    header = found.header
    sequence = -1
    if header.base_sequence >= 0:
        sequence = (header.base_sequence + offset - header.base_offset) & 0x7FFF_FFFF
    place = run_place(record.headers)
    explained = None
    if header.is_control:
        explained = _marker(record)
    elif meaning is not None:
        explained = meaning(record)
    return {
        "offset": offset,
        "timestamp": record.timestamp,
        "key_size": None if record.key is None else len(record.key),
        "value_size": None if record.value is None else len(record.value),
        "sequence": sequence,
        "header_keys": [key.decode(errors="replace") for key, _ in record.headers],
        "run": None
        if place is None
        else {"first_offset": place.first_offset, "before": place.before, "total": place.total},
        "origin": origin_as_json(origin_of(record.headers)),
        "meaning": explained,
    }


def meaning_in(topic: str) -> Meaning | None:
    """Return what explains the records of an internal topic; None for other topics."""
    if topic in (GROUP_OFFSETS_TOPIC, OFFSETS_HISTORY_TOPIC):
        return meaning_of
    if topic == SHARE_STATE_TOPIC:
        return lambda record: share_state_record(record.key, record.value)
    if topic == TRANSACTION_STATE_TOPIC:
        return lambda record: transaction_record(record.key, record.value)
    return None


def bytes_as_json(data: bytes | None) -> Json | None:
    """Return a key or value as JSON: as text if it is printable UTF-8, otherwise in base64."""
    if data is None:
        return None
    text = printable(data)
    if text is not None:
        return {"encoding": "utf-8", "data": text}
    return {"encoding": "base64", "data": base64.b64encode(data).decode()}


def printable(data: bytes) -> str | None:
    """Return the bytes as text; None if they are not printable UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if all(sign.isprintable() or sign in "\n\t" for sign in text) else None


def meaning_of(record: Record) -> Json:
    """Return a decoded record of `__consumer_offsets` or its history as JSON; `words` is a sentence."""
    known_since = decode_mark(record.key, record.value)
    if known_since is not None:
        return mark_as_json(known_since)
    try:
        decoded = decode(record.key, record.value)
    except MalformedRecord as problem:
        return {"kind": "malformed", "words": f"cannot be decoded: {problem}"}
    match decoded:
        case OffsetCommit():
            return _offset_commit(decoded)
        case OffsetTombstone(group_id, topic, partition):
            return {
                "kind": "offset-tombstone",
                "words": f"tombstone: {quoted(group_id)} has no offset in {plain(topic)}-{partition}",
                "group": group_id,
                "topic": topic,
                "partition": partition,
            }
        case GroupMetadata():
            return _group_metadata(decoded)
        case GroupTombstone(group_id):
            return {
                "kind": "group-tombstone",
                "words": f"tombstone: group {quoted(group_id)} was removed",
                "group": group_id,
            }
        case PausedTopicPartitions() | PausedTopicPartitionsTombstone():
            return paused_record(decoded)
        case ChangeAuthor(group_id, topic, _, count, client_id, client_host, undone_at):
            undid = "" if undone_at is None else f", which undid the change at {time_text(undone_at)}"
            return {
                "kind": "change-author",
                "words": (
                    f"{quoted(client_id)} at {client_host} changed {counted(count, 'offset')} of group "
                    f"{quoted(group_id)} in topic {quoted(topic)}{undid}"
                ),
                "group": group_id,
                "topic": topic,
                "client_id": client_id,
                "client_host": client_host,
                "count": count,
                "undone_at": undone_at,
            }
        case UnknownRecord(key_type, _, value):
            what = "a tombstone" if value is None else "a record"
            return {
                "kind": "unknown",
                "words": f"{what} of key type {key_type}, which this version does not know",
                "key_type": key_type,
            }
        case _:
            return _of_new_protocols(decoded)


def _of_new_protocols(record: Any) -> Json:
    return share_record(record) if is_share_group_record(record) else consumer_record(record)


def _offset_commit(commit: OffsetCommit) -> Json:
    words = f"{quoted(commit.group_id)} is at {commit.offset} in {plain(commit.topic)}-{commit.partition}"
    if commit.leader_epoch >= 0:
        words += f", leader epoch {commit.leader_epoch}"
    if commit.metadata:
        words += f", metadata {quoted(commit.metadata)}"
    words += f", committed {time_text(commit.commit_timestamp)}"
    if commit.expire_timestamp >= 0:
        words += f", expires {time_text(commit.expire_timestamp)}"
    return {
        "kind": "offset-commit",
        "words": words,
        "group": commit.group_id,
        "topic": commit.topic,
        "partition": commit.partition,
        "offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commit_timestamp": commit.commit_timestamp,
        "expire_timestamp": commit.expire_timestamp if commit.expire_timestamp >= 0 else None,
        "topic_id": topic_id_text(commit.topic_id) if commit.topic_id != ZERO_TOPIC_ID else None,
    }


def _group_metadata(group: GroupMetadata) -> Json:
    members = f"{len(group.members)} member{'' if len(group.members) == 1 else 's'}"
    kind = f"{plain(group.protocol_type)} group" if group.protocol_type else "group"
    words = f"{kind} {quoted(group.group_id)} is in generation {group.generation} with {members}"
    if group.protocol_name is not None:
        words += f", protocol {plain(group.protocol_name)}"
    if group.leader is not None:
        words += f", leader {plain(group.leader)}"
    return {
        "kind": "group-metadata",
        "words": words,
        "group": group.group_id,
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol_name": group.protocol_name,
        "leader": group.leader,
        "state_timestamp": group.state_timestamp if group.state_timestamp >= 0 else None,
        "members": [_member(member) for member in group.members],
    }


def _member(member: GroupMember) -> Json:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription_size": len(member.subscription),
        "assignment_size": len(member.assignment),
    }


def _marker(record: Record) -> Json:
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        return {"kind": "control", "words": "a marker that cannot be decoded", "marker": None}
    _, number = _MARKER_KEY.unpack_from(record.key)
    marker = _MARKERS.get(number)
    if marker is None:
        return {"kind": "control", "words": f"a marker of type {number}", "marker": None}
    epoch = None
    if record.value is not None and len(record.value) >= _MARKER_VALUE.size:
        _, epoch = _MARKER_VALUE.unpack_from(record.value)
    words = f"transaction marker: {marker}, coordinator epoch {'unknown' if epoch is None else epoch}"
    return {"kind": "control", "words": words, "marker": marker, "coordinator_epoch": epoch}

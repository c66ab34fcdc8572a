"""The records of `__share_group_state`, the log of the share coordinator, as `schemas.SHARE_DELIVERIES`.

A record may have 20,000 state batches, so they go from the decoder's arrays to Arrow's without becoming
Python objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from headgate.domain.ids import Millis, TopicPartition, topic_id_text
from headgate.log.batch_records import Records
from headgate.records import MalformedRecord
from headgate.records.share_batches import COUNT, FIRST, LAST, NO_ROWS, STATE, BatchRows, DeliveryState
from headgate.records.share_state import decode_share
from headgate.records.share_state_model import (
    ShareKey,
    ShareSnapshot,
    ShareTombstone,
    ShareUpdate,
)
from headgate.spark.arrow import Rows, microseconds
from headgate.spark.event_rows import MALFORMED, OTHER, Event, event_columns, keys_and_values
from headgate.spark.schemas import SHARE_DELIVERIES, STATE_BATCH, arrow_schema, arrow_type

_VERSION = 0
_STATE_NUMBERS = 256
_NAMES = {state.value: state.name for state in DeliveryState}
_BATCH_FIELDS = list(arrow_schema(STATE_BATCH))


def rows(records: Records, where: TopicPartition) -> Rows:
    """Return all records, as `schemas.SHARE_DELIVERIES`."""
    keys, values = keys_and_values(records)
    decoded = [_decoded(key, value) for key, value in zip(keys, values, strict=True)]
    events = [event for event, _ in decoded]
    columns = event_columns(records, where, SHARE_DELIVERIES, events, (keys, values))
    columns["batches"] = lambda: _batches([batches for _, batches in decoded])
    return Rows(len(records), columns)


@cache
def _state_names() -> pa.Array:
    return pa.array([_NAMES.get(number, str(number)) for number in range(_STATE_NUMBERS)])


def _decoded(key: bytes | None, value: bytes | None) -> tuple[Event, BatchRows | None]:
    """Return the event of a record, and its batches; None for a record without a place for them."""
    try:
        place = decode_share(key, None, Millis(-1))  # with what follows from the key alone
    except MalformedRecord:
        return {"event": MALFORMED}, None
    if not isinstance(place, ShareTombstone):
        return {"event": OTHER}, None
    event = _place(place.key)
    try:
        record = decode_share(key, value, Millis(-1))
    except MalformedRecord:
        return event | {"event": OTHER if _is_later(value) else MALFORMED}, None
    if not isinstance(record, ShareSnapshot | ShareUpdate):
        return event | {"event": "removed"}, None
    batches = record.batches.rows
    return (event | _event(record), batches) if _is_sound(batches) else (event | {"event": MALFORMED}, None)


def _is_later(value: bytes | None) -> bool:
    """Return whether a value has a later version than this release knows."""
    return value is not None and len(value) > 1 and int.from_bytes(value[:2], "big", signed=True) > _VERSION


def _is_sound(batches: BatchRows) -> bool:
    is_sound = (batches[:, FIRST] >= 0) & (batches[:, LAST] >= batches[:, FIRST]) & (batches[:, COUNT] >= 0)
    return bool(is_sound.all())


def _place(key: ShareKey) -> Event:
    return {"group_id": key.group_id, "topic_id": topic_id_text(key.topic_id), "partition": key.partition}


def _event(record: ShareSnapshot | ShareUpdate) -> Event:
    event: Event = {
        "event": "update",
        "snapshot_epoch": record.snapshot_epoch,
        "leader_epoch": _number(record.leader_epoch),
        "start_offset": _number(record.start_offset),
        "delivery_complete_count": _number(record.delivery_complete_count),
    }
    if isinstance(record, ShareUpdate):
        return event
    return event | {
        "event": "snapshot",
        "state_epoch": record.state_epoch,
        "created_at": microseconds(record.created),
        "written_at": microseconds(record.written),
    }


def _number(value: int) -> int | None:
    """Return an epoch, an offset or a count; None for -1."""
    return None if value < 0 else value


def _batches(of_records: Sequence[BatchRows | None]) -> pa.Array:
    """Return the column of batches, null where a record has no place for them."""
    ends = np.cumsum([0, *(0 if one is None else len(one) for one in of_records)]).astype(np.int32)
    found = np.concatenate([NO_ROWS, *(one for one in of_records if one is not None)])
    states = _state_names().take(pa.array(found[:, STATE] & (_STATE_NUMBERS - 1)))
    columns = [
        pa.array(found[:, FIRST]),
        pa.array(found[:, LAST]),
        states,
        pa.array(found[:, COUNT].astype(np.int32)),
    ]
    is_null = pa.array([one is None for one in of_records], pa.bool_())
    structs = pa.StructArray.from_arrays(columns, fields=_BATCH_FIELDS)
    kind = arrow_type(SHARE_DELIVERIES["batches"].dataType)
    return pa.ListArray.from_arrays(pa.array(ends), structs, mask=is_null).cast(kind)

"""The states of share-partitions as parts of an image for checkpoints.

A state is the records that restore it, as in the log, each after an entry head:

    position i64 of its last record, -1 for a record that continues the state before
    snapshot position i64, updates u32 and updated batches u32 since then
    key size u32, value size u32, key, value
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from headgate.core.contract import MalformedImage
from headgate.core.share.state.state import ShareState, split
from headgate.domain.ids import Millis
from headgate.records.errors import MalformedRecord
from headgate.records.share_state import decode_share, encode_share
from headgate.records.share_state_model import ShareKey, ShareSnapshot, ShareUpdate

STATES: Final = "share states"

_PART_BYTES: Final = 1 << 16
_CONTINUES: Final = -1
_head: Final = struct.Struct("=qqIIII")


def parts_of(states: Mapping[ShareKey, ShareState]) -> Iterator[tuple[str, bytes]]:
    """Yield the states in parts; they may change between two parts. Each state is of one moment."""
    part = bytearray()
    for key in list(states):
        state = states.get(key)
        if state is None:
            continue
        position = state.position
        counts = state.snapshot_position, state.updates, state.updated_batches
        for record in split(state.snapshot_of(key)):
            key_bytes, value = encode_share(record)
            assert value is not None, "a state is not made of tombstones"
            part += _head.pack(position, *counts, len(key_bytes), len(value)) + key_bytes + value
            position = _CONTINUES
            if len(part) >= _PART_BYTES:
                yield STATES, bytes(part)
                part.clear()
    if part:
        yield STATES, bytes(part)


def restored(parts: Callable[[str], Iterable[bytes]]) -> Iterator[tuple[ShareKey, ShareState] | None]:
    """Yield the states of an image, in order, and None where a slice may end. Raises MalformedImage."""
    found: tuple[ShareKey, ShareState] | None = None
    for data in parts(STATES):
        at = 0
        while at < len(data):
            try:
                position, *counts, key_size, value_size = _head.unpack_from(data, at)
                at += _head.size
                value_at = at + key_size
                record = decode_share(data[at:value_at], data[value_at : value_at + value_size], Millis(0))
                at = value_at + value_size
            except (struct.error, MalformedRecord) as problem:
                raise MalformedImage(f"the state of a share-partition cannot be decoded: {problem}") from None
            if isinstance(record, ShareSnapshot):
                if found is not None:
                    yield found
                found = record.key, ShareState.of(record, position)
            elif isinstance(record, ShareUpdate) and found is not None and position == _CONTINUES:
                state = found[1]
                state.batches.merge(record.batches, state.start_offset)
            else:
                raise MalformedImage("an entry of a share-partition's state does not continue the one before")
            state = found[1]
            state.snapshot_position, state.updates, state.updated_batches = counts
            yield None
    if found is not None:
        yield found

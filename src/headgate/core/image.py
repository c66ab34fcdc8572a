"""The records that restore a shard as parts of an image, such as those of each group.

They are records as in the log, so the log's decoder decodes them. Offsets have their own image
(`headgate.core.offsets.image`): there are too many of them for this one.

    records   for each: key size u32, key, value size i32, value
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final

from headgate.core.contract import MalformedImage
from headgate.core.kinds import GroupKind
from headgate.records import MalformedRecord, decode, encode

RECORDS: Final = "records"

_PART_BYTES: Final = 1 << 16
_RECORDS_A_PART: Final = 256
_key_size = Struct("=I")
_value_size = Struct("=i")

Encode = Callable[[Any], tuple[bytes, bytes | None]]
Decode = Callable[[bytes, bytes | None], Any]


def record_parts(kinds: Iterable[GroupKind]) -> Iterator[tuple[str, bytes]]:
    """Yield the groups of all these kinds. Groups created meanwhile are restored from the log."""
    for groups in kinds:
        # All of a group's records are of one moment, also where they are several parts.
        yield from parts_of(
            record for group_id in groups.group_ids() for record in list(groups.records_of(group_id))
        )


def parts_of(records: Iterable[Any], encode: Encode = encode) -> Iterator[tuple[str, bytes]]:
    """Yield records, none of them a tombstone, in parts; they may change between two parts."""
    part: list[bytes] = []
    size = 0
    for record in records:
        key, value = encode(record)
        assert value is not None, "an image has no tombstones"
        part += (_key_size.pack(len(key)), key, _value_size.pack(len(value)), value)
        size += len(key) + len(value)
        if size >= _PART_BYTES or len(part) >= 4 * _RECORDS_A_PART:
            yield RECORDS, b"".join(part)
            part, size = [], 0
    if part:
        yield RECORDS, b"".join(part)


def apply_record_parts(
    apply: Callable[[Any, int], None], parts: Callable[[str], Iterable[bytes]], decode: Decode = decode
) -> Iterator[None]:
    """Apply the records as if they were the first of the log. Raises MalformedImage."""
    for data in parts(RECORDS):
        at = 0
        try:
            while at < len(data):
                (size,) = _key_size.unpack_from(data, at)
                at += _key_size.size
                key = data[at : at + size]
                at += size
                (size,) = _value_size.unpack_from(data, at)
                at += _value_size.size
                apply(decode(key, data[at : at + size]), 0)
                at += size
        except (struct.error, MalformedRecord) as problem:
            raise MalformedImage(f"a record cannot be decoded: {problem}") from problem
        yield

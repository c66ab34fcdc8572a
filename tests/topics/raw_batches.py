"""Build batches that no producer sends: tests set every header field and every byte of the records."""

from __future__ import annotations

import struct

from crc32c import crc32c
from tests.topics.disk import NOW

from headgate.log.batch import varint
from headgate.log.compression import compress


def raw_record(
    value: bytes | None = b"v",
    key: bytes | None = b"k",
    *,
    offset: int = 0,
    time: int = 0,
    headers: bytes = b"\x00",
) -> bytes:
    """Encode one record; `offset` and `time` are its deltas."""
    body = b"\x00" + varint(time) + varint(offset) + _sized(key) + _sized(value) + headers
    return varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def raw_batch(
    body: bytes,
    count: int,
    *,
    last_delta: int | None = None,
    attributes: int = 0,
    base_time: int = NOW,
    max_time: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: int = 0,
    base_offset: int = 0,
) -> bytes:
    """Encode a batch with a correct checksum around `body`, compressed by `codec` if there is one."""
    summed = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        count - 1 if last_delta is None else last_delta,
        base_time,
        base_time if max_time is None else max_time,
        *producer,
        count,
    ) + (compress(codec, body) if codec else body)
    return struct.pack(">qiibI", base_offset, len(summed) + 9, 0, 2, crc32c(summed)) + summed


THREE = b"".join(raw_record(offset=delta) for delta in range(3))
YEARS_MS = 31 * 365 * 86_400_000

"""Compress the records of a batch with another codec."""

from __future__ import annotations

from typing import Final

from headgate.log.batch import BatchHeader, seal_batch
from headgate.log.compression import NONE, SNAPPY, compress, compress_snappy_framed
from headgate.log.header import CODEC_MASK, DELETE_HORIZON, Buffer

_KEPT_ATTRIBUTES: Final = 0xFF & ~(CODEC_MASK | DELETE_HORIZON)


def with_codec(header: BatchHeader, records: Buffer, codec: int, level: int | None) -> bytearray:
    """Return the batch of `header` and its decompressed `records`, compressed with `codec`.

    `level` is the codec's own; None means its default.
    """
    attributes = header.attributes & _KEPT_ATTRIBUTES | codec
    if codec == NONE:
        body = records
    else:
        body = compress_snappy_framed(records) if codec == SNAPPY else compress(codec, records, level)
    return seal_batch(header._replace(attributes=attributes), body)

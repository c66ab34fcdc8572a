"""The four codecs of a record batch, numbered as Kafka numbers them, over cramjam.

Rules: what is written here the Java client reads (its lz4 wants independent blocks), and what any client
writes is read here (snappy comes bare from librdkafka and in xerial's framing from Java and most others). A
producer decides what it sends, so a batch that unpacks to far more than anybody means to send is refused, not
unpacked.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final

import cramjam

from headgate.log.header import Buffer, CorruptBatch

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

LARGEST_OUTPUT_BYTES: Final = 128 << 20
"""What one batch may unpack to, or 64 times its packed size where that is more."""

_LARGEST_RATIO: Final = 64
_FIRST_ATTEMPT_BYTES: Final = 64 << 10
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
"""The magic, then two versions of four bytes each that no reader minds."""


def compress(codec: int, data: Buffer) -> bytes:
    """`data` packed by the codec of this number. Raises ValueError for a number that is none."""
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == LZ4:
        frame = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return bytes(frame.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"no compression codec has the number {codec}")


def decompress(codec: int, data: Buffer) -> bytes:
    """What `data` unpacks to by the codec of this number. Raises CorruptBatch when it does not."""
    try:
        if codec == SNAPPY:
            return _decompress_snappy(data)
        into = _DECOMPRESS_INTO.get(codec)
        if into is None:
            raise CorruptBatch(f"compression codec {codec} is unknown")
        return _decompress_bounded(into, data)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"compressed records do not unpack: {error}") from None


_DECOMPRESS_INTO: Final[dict[int, Callable[[Buffer, bytearray | mmap.mmap], int]]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}


def _limit(packed_bytes: int) -> int:
    return max(LARGEST_OUTPUT_BYTES, _LARGEST_RATIO * packed_bytes)


def _decompress_bounded(into: Callable[[Buffer, bytearray | mmap.mmap], int], data: Buffer) -> bytes:
    """First into a likely size; then into the largest allowed, of which only touched pages cost memory."""
    likely = bytearray(max(_FIRST_ATTEMPT_BYTES, 4 * len(data)))
    try:
        return bytes(memoryview(likely)[: into(data, likely)])
    except cramjam.DecompressionError:
        with mmap.mmap(-1, _limit(len(data))) as largest:
            return largest[: into(data, largest)]


def _decompress_snappy(data: Buffer) -> bytes:
    packed = bytes(data)
    if not packed.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(packed, _limit(len(packed)))
    blocks: list[bytes] = []
    at = _XERIAL_HEADER_BYTES
    room = _limit(len(packed))
    if at > len(packed):
        raise CorruptBatch("a snappy stream ends within its header")
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        at += 4
        if size > len(packed) - at:
            raise CorruptBatch(f"a snappy block claims {size} bytes, {max(len(packed) - at, 0)} are left")
        blocks.append(_decompress_snappy_block(packed[at : at + size], room))
        room -= len(blocks[-1])
        at += size
    return b"".join(blocks)


def _decompress_snappy_block(packed: bytes, room: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(packed)
    if size > room:
        raise CorruptBatch(f"compressed records claim to unpack to {size} bytes")
    return bytes(cramjam.snappy.decompress_raw(packed))

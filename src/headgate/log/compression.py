"""The four codecs of record batches, with Kafka's numbers, on top of cramjam.

The Java client can read everything written here (its lz4 needs independent blocks), and everything that any
client writes can be read here (librdkafka sends raw snappy, Java and most others use xerial's framing).
Producers control the input, so a batch that decompresses to far more than any real one is refused before it
is decompressed.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final

import cramjam

from headgate.log.header import Buffer, CorruptBatch, UnpacksToMore

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

LARGEST_OUTPUT_BYTES: Final = 128 << 20
"""Maximum decompressed size of a batch, or 64 times its compressed size if that is more."""


_LZ4_STEP_BYTES: Final = 1 << 20
_LARGEST_RATIO: Final = 64
_FIRST_ATTEMPT_BYTES: Final = 64 << 10
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
"""The magic, then two versions of four bytes each, which readers ignore."""
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES: Final = 32 << 10


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` with the codec of this number. Raises ValueError for an unknown number.

    `level` is the codec's own, as in Kafka's `compression.gzip.level`, `.lz4.level` and `.zstd.level`; snappy
    has none. None means the codec's default.
    """
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == LZ4:
        frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        with memoryview(data) as view:
            for at in range(0, len(view), _LZ4_STEP_BYTES):
                frame.compress(bytes(view[at : at + _LZ4_STEP_BYTES]))
        return bytes(frame.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    raise ValueError(f"no compression codec has the number {codec}")


def compress_snappy_framed(data: Buffer) -> bytes:
    """Compress `data` with snappy in xerial's framing, as Kafka does: some clients read nothing else."""
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def decompress(codec: int, data: Buffer) -> bytes:
    """Decompress `data` with the codec of this number. Raises CorruptBatch."""
    return bytes(unpack(codec, data))


def unpack(codec: int, data: Buffer, most: int | None = None) -> memoryview:
    """Decompress `data` with the codec of this number, without a copy. Raises CorruptBatch.

    `most` is the maximum result in bytes; more raises UnpacksToMore. Without it the maximum of all batches
    applies. Other threads can run meanwhile.
    """
    room = max(LARGEST_OUTPUT_BYTES, _LARGEST_RATIO * len(data))
    if most is not None:
        room = min(most, room)
    try:
        if codec == SNAPPY:
            return _unpack_snappy(data, room)
        into = _DECOMPRESS_INTO.get(codec)
        if into is None:
            raise CorruptBatch(f"compression codec {codec} is unknown")
        return _unpack_stream(into, data, room)
    except cramjam.DecompressionError as error:
        if _ROOM_USED_UP in str(error):
            raise UnpacksToMore(f"compressed records unpack to more than {room} bytes") from None
        raise CorruptBatch(f"compressed records do not unpack: {error}") from None


_ROOM_USED_UP: Final = "failed to write whole buffer"
"""Part of cramjam's message when the output does not fit."""

_Into = Callable[[Buffer, bytearray | mmap.mmap | memoryview], int]
_DECOMPRESS_INTO: Final[dict[int, _Into]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}


def _unpack_stream(into: _Into, data: Buffer, room: int) -> memoryview:
    """Try a likely size first, then the maximum, of which only touched pages cost memory."""
    likely_bytes = max(_FIRST_ATTEMPT_BYTES, 4 * len(data))
    if likely_bytes < room:
        likely = bytearray(likely_bytes)
        try:
            return memoryview(likely)[: into(data, likely)]
        except cramjam.DecompressionError as error:
            if _ROOM_USED_UP not in str(error):
                raise
    largest = mmap.mmap(-1, room) if room else bytearray()  # a mapping of 0 bytes is impossible
    return memoryview(largest)[: into(data, largest)]


def _unpack_snappy(data: Buffer, room: int) -> memoryview:
    packed = memoryview(data)
    blocks = _xerial_blocks(packed) if bytes(packed[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC else [packed]
    sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    if sum(sizes) > room:
        raise UnpacksToMore(f"compressed records claim to unpack to {sum(sizes)} bytes, {room} are allowed")
    if not any(sizes):
        return memoryview(b"")
    unpacked = memoryview(mmap.mmap(-1, sum(sizes)))
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        if size:
            cramjam.snappy.decompress_raw_into(block, unpacked[at : at + size])
        at += size
    return unpacked


def _xerial_blocks(packed: memoryview) -> list[memoryview]:
    """Return the blocks of a stream in xerial's framing."""
    blocks: list[memoryview] = []
    at = _XERIAL_HEADER_BYTES
    if at > len(packed):
        raise CorruptBatch("a snappy stream ends within its header")
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        at += 4
        if size > len(packed) - at:
            raise CorruptBatch(f"a snappy block claims {size} bytes, {max(len(packed) - at, 0)} are left")
        blocks.append(packed[at : at + size])
        at += size
    return blocks

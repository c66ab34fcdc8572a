"""The codecs: round trips, limits, and invalid input."""

from __future__ import annotations

import pytest

from headgate.log.batch import CorruptBatch
from headgate.log.compression import (
    LARGEST_OUTPUT_BYTES,
    compress,
    compress_snappy_framed,
    decompress,
    unpack,
)
from headgate.log.header import UnpacksToMore

SIZES = [0, 1, 32 << 10, (32 << 10) + 1, 64 << 10, (64 << 10) + 1, 1 << 20, (1 << 20) + 1]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_round_trips_of_every_size(codec: int) -> None:
    """Around the sizes of blocks, steps and first attempts; up to exactly the limit."""
    for size in SIZES:
        data = (b"0123456789abcde" * (size // 15 + 1))[:size]
        packed = compress(codec, data)
        assert decompress(codec, packed) == data
        assert bytes(unpack(codec, packed, size)) == data
        if size:
            with pytest.raises(UnpacksToMore):
                unpack(codec, packed, size - 1)


def test_snappy_is_framed_as_by_java() -> None:
    """A header, then blocks of 32 KiB with their sizes."""
    data = bytes(range(256)) * 130
    framed = compress_snappy_framed(data)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(framed[16:20], "big")
    assert decompress(2, framed[20 : 20 + first]) == data[: 32 << 10]
    assert decompress(2, framed) == data
    assert bytes(unpack(2, framed, len(data))) == data
    with pytest.raises(UnpacksToMore, match="33280 bytes, 33279 are allowed"):
        unpack(2, framed, len(data) - 1)
    assert compress_snappy_framed(b"") == framed[:16]
    assert decompress(2, framed[:16]) == b""


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00", "ends within its header"),
        (compress_snappy_framed(b"some text")[:-1], "a snappy block claims 11 bytes, 10 are left"),
        (compress_snappy_framed(b"some text")[:18], "bytes, 0 are left"),
        (compress_snappy_framed(b"some text") + b"\0\0\0\1", "a snappy block claims 1 bytes, 0 are left"),
        (b"\xff\xff\xff", "do not unpack"),
    ],
)
def test_incomplete_data_does_not_decompress(packed: bytes, message: str) -> None:
    """The reason says where it ends."""
    with pytest.raises(CorruptBatch, match=message):
        decompress(2, packed)


@pytest.mark.parametrize("codec", [0, 5, 7, -1])
def test_unknown_codec_numbers_are_refused(codec: int) -> None:
    """So is that of no compression."""
    with pytest.raises(CorruptBatch, match=f"codec {codec} is unknown"):
        decompress(codec, b"x")
    with pytest.raises(ValueError, match=f"number {codec}"):
        compress(codec, b"x")


def test_a_small_batch_that_claims_much_is_refused_before_decompression() -> None:
    """By the default limit."""
    size = LARGEST_OUTPUT_BYTES + 1
    claim = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    with pytest.raises(UnpacksToMore):
        decompress(2, claim[:3] + bytes([claim[3] | 128, size >> 28]) + b"\0")

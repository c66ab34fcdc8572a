"""A checksum of a Parquet file's footer, between the last page and the footer.

    pages, mark (8 bytes), CRC-32C (4 bytes, little-endian), footer, length of the footer (4 bytes), "PAR1"

Parquet has checksums of pages only. With one flipped bit in the footer a reader may take other columns or
rows for those of the file, end its process, or never return. Readers find pages by their offsets in the
footer, so that they pass over bytes in between. A file of an earlier release, or of another program, has no
mark, and is not checked.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from crc32c import crc32c

MAGIC: Final = b"PAR1"
MARK: Final = b"hg\x00foot\x01"
_END_BYTES: Final = 8
"""Bytes behind the footer: its length, and the magic bytes."""
_SEAL_BYTES: Final = len(MARK) + 4
_TAIL_BYTES: Final = 1 << 16
"""Bytes at the end of a file that have its footer, mostly."""
_SEARCHED_BYTES: Final = 1 << 20
"""Bytes at the end of a file in which a mark is looked for that is not where the length says."""


def with_checksum(content: bytes) -> bytes:
    """Return a Parquet file with the checksum of its footer. `content` is one without, and valid."""
    start = len(content) - _END_BYTES - int.from_bytes(content[-8:-4], "little")
    footer = content[start:]
    return b"".join((content[:start], MARK, crc32c(footer).to_bytes(4, "little"), footer))


def check_footer(file: pa.NativeFile) -> None:
    """Raise ValueError if the footer does not have the checksum before it, or is not where it should be."""
    size = file.size()
    tail = _tail(file, size, _TAIL_BYTES)
    if len(tail) < _END_BYTES or not tail.endswith(MAGIC):
        raise ValueError("it does not end like a Parquet file")
    length = int.from_bytes(tail[-8:-4], "little")
    wanted = _SEAL_BYTES + length + _END_BYTES
    if len(tail) < wanted <= size:
        tail = _tail(file, size, wanted)
    start = len(tail) - length - _END_BYTES
    seal = tail[max(start - _SEAL_BYTES, 0) : max(start, 0)]
    if seal.startswith(MARK):
        if int.from_bytes(seal[len(MARK) :], "little") != crc32c(tail[start:]):
            raise ValueError("the checksum of its footer is wrong")
    elif MARK in (tail if len(tail) >= _SEARCHED_BYTES else _tail(file, size, _SEARCHED_BYTES)):
        raise ValueError("the length of its footer is wrong")


def _tail(file: pa.NativeFile, size: int, count: int) -> bytes:
    """Return the last `count` bytes of the file, or all."""
    start = max(size - count, 0)
    found: bytes = file.read_at(size - start, start)
    return found

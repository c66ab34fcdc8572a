"""A checksum in the footer of a Parquet file, and bytes that are attached before the footer.

    pages, attached bytes, footer, length of the footer (4 bytes), "PAR1"
    footer: a Thrift structure whose last field is mark (8 bytes) and CRC-32C (4 bytes, little-endian)

Parquet has checksums of pages only. With one flipped bit in the footer a reader may take other columns or
rows for those of the file, end its process, or never return. The checksum covers everything from the start
of the footer to the end of the file, except itself. Its place does not depend on the footer's length, so that
a wrong length is told, too. The number of the field is the one that Parquet reserves for extensions: readers
that do not know it pass over it. A file of an earlier release, or of another program, has no mark, and is not
checked.

Readers find pages by their offsets in the footer, so that they pass over attached bytes. The footer is no
place for them: readers limit it, Arrow to 100 million bytes.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

MAGIC: Final = b"PAR1"
MARK: Final = b"hg\x00foot\x02"
_STOP: Final = b"\x00"
"""The end of a Thrift structure."""
_CHECKSUM_BYTES: Final = 4
_FIELD: Final = b"\x08\xfe\xff\x03" + bytes([len(MARK) + _CHECKSUM_BYTES])
"""The start of field 32767, of bytes, in Thrift's compact protocol."""
_END_BYTES: Final = 8
"""Bytes behind the footer: its length, and the magic bytes."""
_MARK_AT: Final = _END_BYTES + len(_STOP) + _CHECKSUM_BYTES + len(MARK)
"""Where the mark begins, in bytes before the end of the file."""
_TAIL_BYTES: Final = 1 << 16
"""Bytes at the end of a file that have its footer, mostly."""


def with_checksum(content: bytes, attached: bytes = b"") -> bytes:
    """Return a Parquet file with attached bytes and the checksum of its footer.

    `content` is a file without either, and valid.
    """
    start = _footer_start(content)
    footer = content[start : -_END_BYTES - len(_STOP)] + _FIELD + MARK
    length = len(footer) + _CHECKSUM_BYTES + len(_STOP)
    end = _STOP + length.to_bytes(4, "little") + MAGIC
    checksum = crc32c(end, crc32c(footer)).to_bytes(_CHECKSUM_BYTES, "little")
    return b"".join((content[:start], attached, footer, checksum, end))


def attached_to(content: bytes, size: int) -> bytes:
    """Return the `size` bytes attached to a Parquet file whose footer was checked."""
    start = _footer_start(content)
    return content[max(start - size, 0) : start]


def checked_footer(file: pa.NativeFile) -> pq.FileMetaData:
    """Return the footer. Raises ValueError if it is none or does not have the checksum in it."""
    size = file.size()
    tail = _tail(file, size, _TAIL_BYTES)
    if len(tail) < _END_BYTES or not tail.endswith(MAGIC):
        raise ValueError("it does not end like a Parquet file")
    wanted = int.from_bytes(tail[-8:-4], "little") + _END_BYTES
    if wanted > size:
        raise ValueError("the length of its footer is wrong")
    if wanted > len(tail):
        tail = _tail(file, size, wanted)
    footer = tail[-wanted:]
    if tail[-_MARK_AT:].startswith(MARK):
        at = len(footer) - _MARK_AT + len(MARK)
        found = footer[max(at, 0) : at + _CHECKSUM_BYTES]
        covered = crc32c(footer[at + _CHECKSUM_BYTES :], crc32c(footer[:at])) if at > 0 else None
        if covered != int.from_bytes(found, "little"):
            raise ValueError("the checksum of its footer is wrong")
    return pq.read_metadata(pa.BufferReader(footer))


def _footer_start(content: bytes) -> int:
    return len(content) - _END_BYTES - int.from_bytes(content[-8:-4], "little")


def _tail(file: pa.NativeFile, size: int, count: int) -> bytes:
    """Return the last `count` bytes of the file, or all."""
    start = max(size - count, 0)
    found: bytes = file.read_at(size - start, start)
    return found

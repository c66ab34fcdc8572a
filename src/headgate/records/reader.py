"""A reader of the primitive types of Kafka's record schemas. It checks every length."""

from __future__ import annotations

import struct

from headgate.records.errors import MalformedRecord

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_VARINT_MAX_BYTES = 5


class Reader:
    """A cursor over one key or value. Every method raises MalformedRecord if the bytes end too early."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        """Read `data` from its start. `what` names the record in error messages."""
        self._data = data
        self._at = 0
        self._what = what

    @property
    def data(self) -> bytes:
        """All bytes."""
        return self._data

    @property
    def position(self) -> int:
        """How many bytes were read."""
        return self._at

    def malformed(self, reason: str) -> MalformedRecord:
        """Return an error that names the record, the position and `reason`."""
        return MalformedRecord(f"{self._what}, byte {self._at} of {len(self._data)}: {reason}")

    @property
    def remaining(self) -> int:
        """Bytes left."""
        return len(self._data) - self._at

    def finish(self) -> None:
        """Check that no bytes are left."""
        if self.remaining:
            raise self.malformed(f"{self.remaining} bytes too many")

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        if size < 0 or size > self.remaining:
            raise self.malformed(f"{size} bytes claimed, {self.remaining} left")
        self._at += size
        return self._data[self._at - size : self._at]

    def _unpack(self, form: struct.Struct) -> int:
        if self.remaining < form.size:
            raise self.malformed("ends too early")
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def int16(self) -> int:
        """Read a signed two-byte integer."""
        return self._unpack(_INT16)

    def int32(self) -> int:
        """Read a signed four-byte integer."""
        return self._unpack(_INT32)

    def int64(self) -> int:
        """Read a signed eight-byte integer."""
        return self._unpack(_INT64)

    def varint(self) -> int:
        """Read an unsigned varint: seven bits in each byte, at most five bytes."""
        value = 0
        for index in range(_VARINT_MAX_BYTES):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise self.malformed("an integer of more than five bytes")

    def text(self, *, is_flexible: bool = False) -> str:
        """Read a string that must not be null."""
        value = self.nullable_text(is_flexible=is_flexible)
        if value is None:
            raise self.malformed("null instead of a string")
        return value

    def nullable_text(self, *, is_flexible: bool = False) -> str | None:
        """Read a string or null."""
        size = self.varint() - 1 if is_flexible else self.int16()
        if size == -1:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise self.malformed("text that is not UTF-8") from None

    def blob(self, *, is_flexible: bool = False) -> bytes:
        """Read a byte string that must not be null."""
        return self.take(self.varint() - 1 if is_flexible else self.int32())

    def count(self, *, smallest: int, is_flexible: bool = False) -> int:
        """Read the length of an array whose entries have at least `smallest` bytes each."""
        count = self.nullable_count(smallest=smallest, is_flexible=is_flexible)
        if count is None:
            raise self.malformed("null instead of an array")
        return count

    def nullable_count(self, *, smallest: int, is_flexible: bool = False) -> int | None:
        """Read the length of an array, or null."""
        count = self.varint() - 1 if is_flexible else self.int32()
        if count == -1:
            return None
        if count < 0 or count * smallest > self.remaining:
            raise self.malformed(f"{count} entries claimed, {self.remaining} bytes left")
        return count

    def tagged_fields(self) -> dict[int, bytes]:
        """Read the tagged fields at the end of a flexible struct. Return tag -> content."""
        fields: dict[int, bytes] = {}
        for _ in range(self.varint()):
            tag = self.varint()
            fields[tag] = self.take(self.varint())
        return fields

"""Conversion between bytes and messages: the registry of readers and writers by message type and version.

Readers and writers are compiled when they are first used. `register` replaces a compiled one by a
hand-written one. A hand-written one must behave like the compiled one and raise only `MalformedMessage` for
invalid bytes.
"""

from __future__ import annotations

from typing import Any, TypeVar

from headgate.wire.message import Message
from headgate.wire.reading import Reader, compile_reader
from headgate.wire.writing import Writer, compile_writer

MessageT = TypeVar("MessageT", bound=Message)

_readers: dict[tuple[type[Message], int], Reader[Any]] = {}
_writers: dict[tuple[type[Message], int], Writer[Any]] = {}


def decode(message_type: type[MessageT], version: int, data: bytes | memoryview, at: int = 0) -> MessageT:
    """Return the message of this type and version that starts at byte `at` of the data.

    Fields that the version does not have get their defaults. Bytes after the message are ignored. Raises
    `MalformedMessage`.
    """
    reader = _readers.get((message_type, version)) or reader_for(message_type, version)
    message: MessageT = reader(data if type(data) is bytes else bytes(data), at)
    return message


def encode(message: Message, version: int) -> bytes:
    """Return the bytes of a message in this version. Raises `UnwritableMessage`."""
    out = bytearray()
    encode_into(out, message, version)
    return bytes(out)


def encode_into(out: bytearray, message: Message, version: int) -> None:
    """Append a message to `out`. Raises `UnwritableMessage` and then leaves `out` unchanged."""
    writer = _writers.get((type(message), version)) or writer_for(type(message), version)
    writer(out, message)


def reader_for(message_type: type[MessageT], version: int) -> Reader[MessageT]:
    """Return the reader of this version, for callers that use it often. It accepts `bytes` only."""
    reader = _readers.get((message_type, version))
    if reader is None:
        _check(message_type, version)
        reader = _readers[message_type, version] = compile_reader(message_type, version)
    return reader


def writer_for(message_type: type[MessageT], version: int) -> Writer[MessageT]:
    """Return the writer of this version, for callers that use it often."""
    writer = _writers.get((message_type, version))
    if writer is None:
        _check(message_type, version)
        writer = _writers[message_type, version] = compile_writer(message_type, version)
    return writer


def register(
    message_type: type[MessageT],
    version: int,
    *,
    reader: Reader[MessageT] | None = None,
    writer: Writer[MessageT] | None = None,
) -> None:
    """Replace the reader or the writer of this version by a hand-written one."""
    _check(message_type, version)
    if reader is not None:
        _readers[message_type, version] = reader
    if writer is not None:
        _writers[message_type, version] = writer


def _check(message_type: type[Message], version: int) -> None:
    first, last = message_type.VERSIONS
    if not first <= version <= last:
        raise ValueError(f"{message_type.__name__} has the versions {first} to {last}, not {version}")

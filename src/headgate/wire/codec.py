"""Bytes to messages and back: the registry of readers and writers, one pair a message type and version.

They are compiled when first used. A hand-written one takes the place of a compiled one by `register`, and the
tests hold it to the same promises: equal to the compiled pair, only `MalformedMessage` on bad bytes.
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
    """The message of this type and version that begins at byte `at` of the data.

    Fields that the version does not have get their defaults; bytes behind the message are ignored. Raises
    `MalformedMessage`.
    """
    reader = _readers.get((message_type, version)) or reader_for(message_type, version)
    message: MessageT = reader(data if type(data) is bytes else bytes(data), at)
    return message


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message in this version. Raises `UnwritableMessage`."""
    out = bytearray()
    encode_into(out, message, version)
    return bytes(out)


def encode_into(out: bytearray, message: Message, version: int) -> None:
    """Write a message behind what `out` holds; when it raises `UnwritableMessage`, `out` is as it was."""
    writer = _writers.get((type(message), version)) or writer_for(type(message), version)
    writer(out, message)


def reader_for(message_type: type[MessageT], version: int) -> Reader[MessageT]:
    """The reader of this version, to be kept by a caller who needs it often. It takes `bytes` only."""
    reader = _readers.get((message_type, version))
    if reader is None:
        _check(message_type, version)
        reader = _readers[message_type, version] = compile_reader(message_type, version)
    return reader


def writer_for(message_type: type[MessageT], version: int) -> Writer[MessageT]:
    """The writer of this version, to be kept by a caller who needs it often."""
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
    """Use a hand-written reader or writer for this version from now on."""
    _check(message_type, version)
    if reader is not None:
        _readers[message_type, version] = reader
    if writer is not None:
        _writers[message_type, version] = writer


def _check(message_type: type[Message], version: int) -> None:
    first, last = message_type.VERSIONS
    if not first <= version <= last:
        raise ValueError(f"{message_type.__name__} has the versions {first} to {last}, not {version}")

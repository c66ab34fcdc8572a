"""Frames and their headers.

A frame is a length of four bytes, then a header and a message of that length together. The header of a
request has the API key, the version, a correlation id and the client id (always a nullable string with a
two-byte length). The header of a response has the correlation id. In flexible versions, tagged fields follow
(skipped here), except in the response to ApiVersions: its receiver does not know the server's versions yet.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headgate.wire.codec import encode_into
from headgate.wire.errors import MalformedFrame, MalformedMessage, OversizedFrame, UnwritableMessage
from headgate.wire.extensions import ALL_APIS
from headgate.wire.message import Message
from headgate.wire.pieces import FrameBuffer, LongFrame
from headgate.wire.primitives import LONGEST_STRING_BYTES, InvalidEncoding, skip_tagged_fields

API_VERSIONS_KEY: Final = 18
_FETCHES: Final = (1, 78)
"""The APIs whose responses have records: Fetch and ShareFetch."""
LENGTH_SIZE: Final = 4
TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes of a TLS connection."""
MOST_HEADER_FIELDS: Final = 100
"""Tagged fields that a request's header may have. No version of Kafka has any. Headers are read on the event
loop, where tens of millions would take many seconds.
"""
HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ")

_LENGTH = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhih")
_LENGTH_AND_CORRELATION_ID = struct.Struct(">ii")

_NEVER: Final = 1 << 15
_FLEXIBLE_SINCE = {
    key: _NEVER if info.flexible_since is None else info.flexible_since for key, info in ALL_APIS.items()
}


class RequestHeader(NamedTuple):
    """The header of a request. `body_at` is the position of the message in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


class FrameReader:
    """Splits a stream into frames."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.pending_bytes = 0
        """Received bytes of an incomplete frame."""
        self.frame_count = 0
        """Complete frames so far."""
        self._pending = bytearray()
        self._needed = LENGTH_SIZE
        """Pending bytes needed before the next frame can be complete."""

    def only_frame(self, data: bytes) -> bytes | None:
        """Return the frame without its length if `data` is exactly one frame, else None: then call `feed`.

        Requests nearly always arrive in this way.
        """
        length = len(data) - LENGTH_SIZE
        if self.pending_bytes or not 0 < length <= self._max_bytes:
            return None
        if (data[0] << 24 | data[1] << 16 | data[2] << 8 | data[3]) != length:
            return None
        self.frame_count += 1
        return data[LENGTH_SIZE:]

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes. Return the frames that are complete now, without their lengths.

        Raises `MalformedFrame` for a length of zero or less and `OversizedFrame` for a length above the
        limit. After either error the stream cannot be read, and complete frames in the same bytes are lost.
        """
        if not self._pending:
            frames, at = self._cut(data)
            if at < len(data):
                self._pending += data[at:]
                self.pending_bytes = len(self._pending)
            return frames
        self._pending += data
        self.pending_bytes = len(self._pending)
        if len(self._pending) < self._needed:
            return []
        with memoryview(self._pending) as view:
            frames, at = self._cut(view)
        del self._pending[:at]
        self.pending_bytes = len(self._pending)
        return frames

    def drop(self) -> None:
        """Free the bytes of an incomplete frame: nothing more is received."""
        self._pending = bytearray()
        self.pending_bytes = 0

    def _cut(self, data: bytes | memoryview) -> tuple[list[bytes], int]:
        """Return the complete frames at the start of the data, and the position after them."""
        frames: list[bytes] = []
        at, size = 0, len(data)
        while size - at >= LENGTH_SIZE:
            end = at + LENGTH_SIZE + self._check_length(_LENGTH.unpack_from(data, at)[0])
            if end > size:
                self._needed = end - at
                return frames, at
            frames.append(bytes(data[at + LENGTH_SIZE : end]))
            self.frame_count += 1
            at = end
        self._needed = LENGTH_SIZE
        return frames, at

    def _check_length(self, length: int) -> int:
        if length <= 0:
            raise MalformedFrame(f"a frame cannot have the length {length}")
        if length > self._max_bytes:
            raise OversizedFrame(
                f"a frame of {length} bytes; the limit is {self._max_bytes}{_other_protocol(length)}"
            )
        return length


def _other_protocol(length: int) -> str:
    """Return an explanation if the length is the first four bytes of another protocol."""
    if length >> 16 == TLS_HANDSHAKE:
        return " (it looks like TLS, which is not supported: set security.protocol=PLAINTEXT in the client)"
    if length.to_bytes(4, "big") in HTTP_METHODS:
        return " (it looks like HTTP: this port serves Kafka's protocol; --metrics-listen serves the metrics)"
    return ""


def is_flexible(api_key: int, api_version: int) -> bool:
    """Tell whether this version of an API has compact lengths and tagged fields. False for an unknown key."""
    return api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER)


def read_request_header(frame: bytes) -> RequestHeader:
    """Return the header of a request. Raises `MalformedMessage`.

    An unknown key or version is not an error here. The header is then read without tagged fields, and
    `body_at` is the position after it.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
        at = _REQUEST_HEADER.size
        client_id = None
        if length >= 0:
            if length > len(frame) - at:
                raise MalformedMessage(f"request header: client_id is truncated at {len(frame)} bytes")
            client_id = frame[at : at + length].decode()
            at += length
        elif length != -1:
            raise MalformedMessage(f"request header: client_id has the negative length {length}")
        if is_flexible(api_key, api_version):
            tagged_fields = frame[at]
            at += 1
            if tagged_fields:
                at = skip_tagged_fields(frame, at, tagged_fields, MOST_HEADER_FIELDS)
    except (struct.error, IndexError):
        raise MalformedMessage(f"request header: truncated at {len(frame)} bytes") from None
    except UnicodeDecodeError:
        raise MalformedMessage("request header: client_id is not UTF-8") from None
    except InvalidEncoding as reason:
        raise MalformedMessage(f"request header {reason}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, at)


def request_frame(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the whole frame of a request, with its length. Raises `UnwritableMessage`."""
    client = b"" if client_id is None else client_id.encode()
    if len(client) > LONGEST_STRING_BYTES:
        raise UnwritableMessage(
            f"the client id has {len(client)} bytes, and no string may have more than {LONGEST_STRING_BYTES}"
        )
    out = bytearray(LENGTH_SIZE)
    out += _REQUEST_HEADER.pack(
        message.API_KEY, version, correlation_id, -1 if client_id is None else len(client)
    )
    out += client
    if is_flexible(message.API_KEY, version):
        out.append(0)
    encode_into(out, message, version)
    _LENGTH.pack_into(out, 0, len(out) - LENGTH_SIZE)
    return bytes(out)


def response_frame(correlation_id: int, api_key: int, api_version: int, body: Message) -> bytes | LongFrame:
    """Return the whole frame of a response, with its length. Raises `UnwritableMessage`."""
    start = _LENGTH_AND_CORRELATION_ID.pack(0, correlation_id)
    out = FrameBuffer(start) if api_key in _FETCHES else bytearray(start)
    if api_key != API_VERSIONS_KEY and is_flexible(api_key, api_version):
        out.append(0)
    encode_into(out, body, api_version)
    size = out.size if isinstance(out, FrameBuffer) else len(out)
    _LENGTH.pack_into(out, 0, size - LENGTH_SIZE)
    return out.frame() if isinstance(out, FrameBuffer) else bytes(out)


def response_body(api_key: int, api_version: int, body: Message) -> bytes:
    """Return the part of a response's frame after the correlation id. Raises `UnwritableMessage`."""
    return bytes(response_frame(0, api_key, api_version, body))[_LENGTH_AND_CORRELATION_ID.size :]


def read_response_header(frame: bytes, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id of a response, and the position of the message. Raises `MalformedMessage`."""
    try:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        at = LENGTH_SIZE
        if api_key != API_VERSIONS_KEY and is_flexible(api_key, api_version):
            at = skip_tagged_fields(frame, at + 1, frame[at])
    except (struct.error, IndexError):
        raise MalformedMessage(f"response header: truncated at {len(frame)} bytes") from None
    except InvalidEncoding as reason:
        raise MalformedMessage(f"response header {reason}") from None
    return correlation_id, at

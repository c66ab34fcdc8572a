"""A socket for frames, valid or invalid."""

from __future__ import annotations

import socket
import struct
from typing import TypeVar

from headgate.wire.codec import decode
from headgate.wire.framing import read_response_header, request_frame
from headgate.wire.message import Request, Response
from headgate.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

ResponseT = TypeVar("ResponseT", bound=Response)


class RawConnection:
    """A client that can send anything."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send(struct.pack(">i", len(body)) + body)

    def read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += more
        return data

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.read_exactly(4))
        return self.read_exactly(size)

    def is_closed_by_server(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def request(self, request: Request[ResponseT], version: int, response_type: type[ResponseT]) -> ResponseT:
        """Send a request in one version of the API and read the response."""
        self.send(request_frame(request, version, correlation_id=7, client_id="raw"))
        answer = self.read_frame()
        correlation_id, body_at = read_response_header(answer, request.API_KEY, version)
        assert correlation_id == 7
        return decode(response_type, version, answer, body_at)

    def api_versions(self) -> ApiVersionsResponse:
        return self.request(ApiVersionsRequest(), 0, ApiVersionsResponse)

"""What the server's tests share: raw connections to a real server process."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from headgate.wire.codec import decode
from headgate.wire.framing import request_frame

from headgate.broker import Broker, run
from headgate.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class RawConnection:
    """A socket that speaks frames, and lets a test say anything, right or wrong."""

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

    def request(self, request: Any, version: int, response_type: type[Any]) -> Any:
        """Ask in one version of the API and read the answer."""
        self.send(request_frame(request, version, correlation_id=7, client_id="raw"))
        answer = self.read_frame()
        assert answer[:4] == struct.pack(">i", 7)
        return decode(response_type, version, answer, response_body_at(response_type, version))

    def api_versions(self) -> ApiVersionsResponse:
        response = self.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert isinstance(response, ApiVersionsResponse)
        return response


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with run() as running:
        yield running


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[[], RawConnection]]:
    opened: list[RawConnection] = []

    def open_one() -> RawConnection:
        opened.append(RawConnection(broker.port))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.socket.close()

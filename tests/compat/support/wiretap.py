"""A listener on the line between clients and a broker: what they ask, as it is on the wire.

It stands in the broker's place: clients connect to it, and the broker has to advertise its address.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any, TypeVar

from headgate.wire.codec import decode
from headgate.wire.framing import FrameReader, read_request_header
from headgate.wire.message import Request

LARGEST_FRAME_BYTES = 100 << 20
CHUNK_BYTES = 1 << 16

RequestT = TypeVar("RequestT", bound=Request[Any])


class Wiretap:
    """Lets connections through to a broker, and keeps the requests of the APIs it is told to listen for."""

    def __init__(self, *api_keys: int) -> None:
        self._wanted = frozenset(api_keys)
        self._heard: list[tuple[int, int, bytes]] = []
        self._sockets: list[socket.socket] = []
        self._target: tuple[str, int] | None = None
        self._entrance = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._entrance.getsockname()[1]}"

    def __enter__(self) -> Wiretap:
        return self

    def __exit__(self, *_: object) -> None:
        for one in [self._entrance, *self._sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def let_through_to(self, host: str, port: int) -> None:
        """Begin: from now on connections go to this broker."""
        self._target = (host, port)
        threading.Thread(target=self._accept, daemon=True).start()

    def heard(self, request_type: type[RequestT]) -> list[tuple[int, RequestT]]:
        """The requests of this type so far, each with its version."""
        return [
            (version, decode(request_type, version, body))
            for api_key, version, body in list(self._heard)
            if api_key == request_type.API_KEY
        ]

    def _accept(self) -> None:
        assert self._target is not None
        with contextlib.suppress(OSError):  # the entrance is closed
            while True:
                client, _ = self._entrance.accept()
                broker = socket.create_connection(self._target)
                self._sockets += [client, broker]
                threading.Thread(target=self._carry, args=(client, broker, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(broker, client, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_asking: bool) -> None:
        frames = FrameReader(LARGEST_FRAME_BYTES)
        with contextlib.suppress(OSError):  # either end hung up
            while data := source.recv(CHUNK_BYTES):
                if is_asking:
                    self._listen(frames.feed(data))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _listen(self, frames: list[bytes]) -> None:
        for frame in frames:
            if int.from_bytes(frame[:2], "big") in self._wanted:
                header = read_request_header(frame)
                self._heard.append((header.api_key, header.api_version, frame[header.body_at :]))

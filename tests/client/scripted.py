"""A node with scripted responses, for behaviour that real nodes never or rarely show."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from headgate.wire.framing import FrameReader, RequestHeader, read_request_header, response_frame
from headgate.wire.message import Message
from headgate.wire.messages import APIS
from headgate.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

Answer = Message | bytes | None
"""A response, bytes to send unchanged, or None to send nothing."""

Script = Callable[[RequestHeader, bytes], Answer]
"""Returns the response for a request's header and its whole frame."""

CLOSE = b""
"""The bytes that make the node close the connection."""


def every_version() -> ApiVersionsResponse:
    """Return the response to ApiVersions of a node that supports all versions."""
    keys = [
        ApiVersion(api_key=key, min_version=info.min_version, max_version=info.max_version)
        for key, info in APIS.items()
    ]
    return ApiVersionsResponse(api_keys=keys)


class ScriptedNode:
    """A node that listens on its own port and follows a script. `requests` are the received requests."""

    def __init__(self, script: Script) -> None:
        self.requests: list[tuple[int, int]] = []
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.host, self.port = self._listener.getsockname()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close_connections(self) -> None:
        """Close all connections, and accept others."""
        while self._open:
            self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections and wait for the threads."""
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        frames = FrameReader(1 << 20)
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(65536):
                for frame in frames.feed(data):
                    header = read_request_header(frame)
                    self.requests.append((header.api_key, header.api_version))
                    answer = self._script(header, frame)
                    if answer == CLOSE:
                        return
                    if isinstance(answer, Message):
                        answer = bytes(
                            response_frame(header.correlation_id, header.api_key, header.api_version, answer)
                        )
                    connection.sendall(answer or b"")

"""A blocking connection to one node, for one request at a time.

A connection first asks the node for its API versions, and authenticates if it is secured so. Requests then
use the newest version that both sides support, unless the caller chooses one.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

from headgate.client.authentication import authenticate
from headgate.client.errors import (
    AnswerLost,
    BadResponse,
    ClientError,
    ConnectionFailed,
    RequestTimedOut,
    TlsFailed,
    TlsInterrupted,
    Unsendable,
    VersionNotSupported,
)
from headgate.client.security import NOT_SECURED, Security
from headgate.client.security.tls import is_end, not_tls, tls_failure
from headgate.domain.errors import ErrorCode
from headgate.wire.codec import decode
from headgate.wire.errors import MalformedFrame, UnwritableMessage, WireError
from headgate.wire.extensions import ALL_APIS, EXTENSIONS
from headgate.wire.framing import FrameReader, read_response_header, request_frame
from headgate.wire.message import Request, Response
from headgate.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

ResponseT = TypeVar("ResponseT", bound=Response)

CLIENT_NAME = "headgate"
CLIENT_VERSION = "1"
"""Name and version of the client, which nodes can show in metrics. Neither must be empty."""

LARGEST_RESPONSE_BYTES = 1 << 30
LARGEST_FIRST_RESPONSE_BYTES = 1 << 20
"""The limit until the connection is authenticated: nobody knows yet who answers."""
RECEIVE_BYTES = 1 << 18
WINDOW = 64
"""How many small requests are sent before their responses are read."""
LONGEST_THROTTLE_S = 60.0
"""A node that demands longer waits of a client above its quota is not waited for."""
SESSION_SHARE = 0.85
"""The share of the lifetime of an authentication after which a new connection is made (KIP-368)."""
_READS = (
    "ApiVersions",
    "ConsumerGroupDescribe",
    "Describe",
    "Fetch",
    "Find",
    "List",
    "Metadata",
    "OffsetFetch",
    "Sasl",
    "ShareGroupDescribe",
)
"""How the names of requests begin that change nothing."""
_TLS_ALERT = b"\x15\x03"
_WHERE_TO_SET = (
    "in the file of --command-config, in Python in `security`, or in Spark by the option "
    "kafka.security.protocol"
)
_MAY_NEED_TLS_OR_SASL = (
    f"; if this port needs TLS or SASL, set security.protocol {_WHERE_TO_SET}; a server without a free "
    "connection closes it, too: its log says so"
)
_MAY_NEED_SASL = "; if this port needs SASL too, set security.protocol to SASL_SSL"
_NO_BROKER = "; check that a Kafka broker listens there"


class Connection:
    """A connection to a node. Close it, or use it in a `with` block. Not thread-safe.

    `timeout_s` limits connecting, with TLS and SASL, and each request. Raises `ConnectionFailed` and
    `RequestTimedOut`. After these and `BadResponse` the connection is closed, because a late response must
    not be taken for the next one. Raises RuntimeError for a thread that uses it while another one does.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float = 10.0,
        client_id: str = "headgate",
        security: Security = NOT_SECURED,
    ) -> None:
        self.host = host
        self.port = port
        self.timeout_s = timeout_s
        self.client_id = client_id
        self.security = security
        self._answered = 0
        """How many requests other than ApiVersions were answered."""
        self._is_answering = False
        """Whether any request was answered."""
        self._ready_by: float | None = time.monotonic() + timeout_s
        """The monotonic time until which the connection must be ready; None: it is."""
        self._session_ends = math.inf
        """The monotonic time at which the node demands a new authentication."""
        self._muted_until = 0.0
        """The monotonic time until which the node reads no requests, because of a quota (KIP-219)."""
        self._correlation_ids = itertools.count(1)
        self._in_use = threading.Lock()
        self._frames = FrameReader(LARGEST_FIRST_RESPONSE_BYTES)
        self._socket = self._connect()
        try:
            self.versions, self.features = self._ask_versions()
            self._authenticate()
        except BaseException:
            self.close()
            raise
        self._frames = FrameReader(LARGEST_RESPONSE_BYTES)
        self._ready_by = None

    @property
    def address(self) -> str:
        """The node's address as `host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed the connection, and its authentication is valid."""
        is_ours = self._socket.fileno() != -1 and time.monotonic() < self._session_ends
        return is_ours and not self._is_closed_by_node()

    def _is_closed_by_node(self) -> bool:
        """Return whether the node has closed the connection while nothing was asked; nodes close idle ones.

        A request that is sent then would be lost without an answer, and nobody could tell what became of it.
        """
        if not self._in_use.acquire(blocking=False):
            return False  # whoever waits for a response will know
        try:
            if not _is_readable(self._socket):
                return False
            self._socket.settimeout(0)
            self._socket.recv(1)  # the end, or what nobody has asked for
        except (BlockingIOError, ssl.SSLWantReadError):
            return False  # a message of TLS
        except OSError:
            return True
        else:
            return True
        finally:
            self._in_use.release()

    def request(
        self,
        message: Request[ResponseT],
        version: int | None = None,
        *,
        at_most: int | None = None,
        extra_time_s: float = 0.0,
    ) -> ResponseT:
        """Send a request and wait for its response.

        The version is `version`, or the newest up to `at_most` that both sides support. `extra_time_s` is
        added to the timeout, for requests that let the node wait. Raises `VersionNotSupported` too. The
        caller checks the error codes in the response.
        """
        if version is None:
            version = self.version_for(type(message), at_most=at_most)
        extra_time_s += max(0.0, self._muted_until - time.monotonic())
        ((answer, at),) = self._exchange([message], version, self.timeout_s + extra_time_s)
        response = self._read(message.response_type(), version, answer, at)
        throttle_s = getattr(response, "throttle_time_ms", 0) / 1000
        self._muted_until = time.monotonic() + min(throttle_s, LONGEST_THROTTLE_S)
        return response

    def requests(self, messages: Sequence[Request[ResponseT]]) -> list[ResponseT]:
        """Send requests of one kind, many before the first response. Return the responses, in order.

        For small requests, which change nothing. The timeout is for each window of them.
        """
        responses: list[ResponseT] = []
        for at in range(0, len(messages), WINDOW):
            some = messages[at : at + WINDOW]
            version = self.version_for(type(some[0]))
            for message, (answer, start) in zip(
                some, self._exchange(some, version, self.timeout_s), strict=True
            ):
                responses.append(self._read(message.response_type(), version, answer, start))
        return responses

    def version_for(self, request_type: type[Request[ResponseT]], *, at_most: int | None = None) -> int:
        """Return the newest version of a request that both sides support. Raises `VersionNotSupported`."""
        name = ALL_APIS[request_type.API_KEY].name
        if request_type.API_KEY not in self.versions:
            alone = ", which only Headgate has" if request_type.API_KEY in EXTENSIONS else ""
            raise VersionNotSupported(f"{self.address} does not support {name}{alone}")
        node_first, node_last = self.versions[request_type.API_KEY]
        first, last = request_type.VERSIONS
        newest = min(node_last, last if at_most is None else min(last, at_most))
        if newest < max(node_first, first):
            raise VersionNotSupported(
                f"{self.address} supports {name} {node_first} to {node_last}; "
                f"one of {first} to {last if at_most is None else at_most} is needed"
            )
        return newest

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        self._socket.close()

    def interrupt(self) -> None:
        """End the connection for a thread that waits for a response: it gets `ConnectionFailed`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        try:
            connected = socket.create_connection((self.host, self.port), self.timeout_s)
        except TimeoutError:
            raise RequestTimedOut(f"no connection to {self.address} within {self.timeout_s:.3g} s") from None
        except OSError as error:
            raise ConnectionFailed(f"no connection to {self.address}: {error.strerror or error}") from error
        except (ValueError, OverflowError) as error:
            raise ConnectionFailed(f"no connection to {self.address}: no host has this address") from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = self.security.context()
        return connected if context is None else self._encrypted(connected, context)

    def _encrypted(self, connected: socket.socket, context: ssl.SSLContext) -> socket.socket:
        assert self.security.tls is not None
        connected.settimeout(self._time_for(self.timeout_s))
        try:
            return context.wrap_socket(connected, server_hostname=self.host)
        except TimeoutError:
            connected.close()
            text = f"no TLS handshake with {self.address} within {self.timeout_s:.3g} s"
            raise RequestTimedOut(text) from None
        except OSError as error:
            connected.close()
            raise self._tls_error(error) from error
        except ValueError as error:
            connected.close()
            raise TlsFailed(f"no certificate can have the name {self.host}: {error}") from error

    def _tls_error(self, error: OSError) -> ClientError:
        """Return the error for one of TLS: during the handshake, or before the first response."""
        if is_end(error):
            return TlsInterrupted(not_tls(self.address))
        assert self.security.tls is not None and isinstance(error, ssl.SSLError)
        return TlsFailed(tls_failure(error, self.security.tls, self.address))

    def _time_for(self, timeout_s: float) -> float:
        """Return what a request of this timeout may take, in seconds: less until the connection is ready."""
        if self._ready_by is None:
            return timeout_s
        return max(0.001, min(timeout_s, self._ready_by - time.monotonic()))

    def _authenticate(self) -> None:
        """Authenticate, if the connection is secured so. Raises `AuthenticationFailed`."""
        if self.security.credentials is not None:
            lifetime_ms = authenticate(self, self.security.credentials)
            if lifetime_ms > 0:
                self._session_ends = time.monotonic() + lifetime_ms / 1000 * SESSION_SHARE

    def _ask_versions(self) -> tuple[dict[int, tuple[int, int]], frozenset[str]]:
        """Request the versions by API key, and the names of supported features.

        Uses the newest version, and the oldest one if the node does not support that.

        Of a refusal only the error code is read: it is of version 0, or should be.
        """
        request = ApiVersionsRequest(client_software_name=CLIENT_NAME, client_software_version=CLIENT_VERSION)
        version = ApiVersionsRequest.VERSIONS[1]
        ((answer, at),) = self._exchange([request], version, self.timeout_s)
        if answer[at : at + 2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
            ((answer, at),) = self._exchange([request], version, self.timeout_s)
        response = self._read(ApiVersionsResponse, version, answer, at)
        if response.error_code != ErrorCode.NONE:
            raise BadResponse(f"{self.address} answers ApiVersions with error {response.error_code}")
        versions = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        return versions, frozenset(feature.name for feature in response.supported_features)

    def _exchange(
        self, messages: Sequence[Request[ResponseT]], version: int, timeout_s: float
    ) -> list[tuple[bytes, int]]:
        """Send requests of one kind. Return the frame of each response, and where its message begins."""
        key = messages[0].API_KEY
        name = ALL_APIS[key].name
        ids = [next(self._correlation_ids) for _ in messages]
        try:
            frames = [
                request_frame(message, version, number, self.client_id)
                for message, number in zip(messages, ids, strict=True)
            ]
        except (UnicodeEncodeError, UnwritableMessage) as problem:
            raise Unsendable(f"{name} cannot be sent: {problem}") from problem
        # Before the first answer the exchange itself tells why the node closes the connection.
        is_closed = not self.is_open if self._is_answering else self._socket.fileno() == -1
        if is_closed:
            self.close()
            raise ConnectionFailed(f"the connection to {self.address} is closed")
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(
                f"the client of {self.address} is in use by another thread; use one client for each thread"
            )
        try:
            answers = self._send_and_receive(frames, time.monotonic() + self._time_for(timeout_s))
            found = [(answer, *read_response_header(answer, key, version)) for answer in answers]
            for expected, (_, answered_id, _) in zip(ids, found, strict=True):
                if answered_id != expected:
                    raise MalformedFrame(f"correlation id {answered_id}, expected {expected}")
        except TimeoutError:
            self.close()
            raise RequestTimedOut(f"{self.address} did not answer {name} within {timeout_s:.3g} s") from None
        except OSError as error:
            self.close()
            if isinstance(error, ssl.SSLError) and not self._is_answering:
                # With TLS 1.3 a node refuses a client's certificate after the handshake.
                raise self._tls_error(error) from error
            reason = error.strerror or error
            text = f"connection to {self.address} lost during {name}: {reason}{self._missing_security}"
            if name.startswith(_READS):
                raise ConnectionFailed(text) from error
            raise AnswerLost(text) from error
        except WireError as error:
            self.close()
            hint = "" if self._is_answering else _NO_BROKER
            raise BadResponse(f"{self.address} sent an invalid response to {name}: {error}{hint}") from error
        except BaseException:
            self.close()
            raise
        finally:
            self._in_use.release()
        self._is_answering = True
        self._answered += key != ApiVersionsRequest.API_KEY
        return [(answer, at) for answer, _, at in found]

    @property
    def _missing_security(self) -> str:
        """What a port that closes the connection before its first response may need; a hint, or nothing."""
        if self._answered or self.security.credentials is not None:
            return ""
        return _MAY_NEED_TLS_OR_SASL if self.security.tls is None else _MAY_NEED_SASL

    def _send_and_receive(self, frames: Sequence[bytes], deadline: float) -> list[bytes]:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._socket.sendall(frames[0] if len(frames) == 1 else b"".join(frames))
        answers: list[bytes] = []
        while len(answers) < len(frames):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("closed by the other side")
            if self._answered == 0 and data.startswith(_TLS_ALERT):
                protocols = "SSL or SASL_SSL" if self.security.credentials is None else "SASL_SSL"
                raise TlsFailed(
                    f"{self.address} answers in TLS; set security.protocol to {protocols} {_WHERE_TO_SET}"
                )
            answers += self._frames.feed(data)
        return answers[: len(frames)]

    def _read(self, response_type: type[ResponseT], version: int, answer: bytes, at: int) -> ResponseT:
        try:
            return decode(response_type, version, answer, at)
        except WireError as error:
            self.close()
            raise BadResponse(f"{self.address} sent an invalid response: {error}") from error


def _is_readable(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))

"""One connection: versions are negotiated, and each kind of failure has its own error."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.client.conftest import StartNode
from tests.client.scripted import CLOSE, Answer, Script, ScriptedNode, every_version

from headgate.client.connection import Connection
from headgate.client.errors import BadResponse, ConnectionFailed, RequestTimedOut, VersionNotSupported
from headgate.wire.extensions.pause_partitions import PausePartitionsRequest
from headgate.wire.framing import RequestHeader, response_frame
from headgate.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headgate.wire.messages.fetch import FetchRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.wire.messages.list_groups import ListGroupsRequest

HEARTBEAT, API_VERSIONS = 12, 18


def connect(node: ScriptedNode, timeout_s: float = 5.0) -> Connection:
    """Open a connection to a scripted node."""
    return Connection(node.host, node.port, timeout_s)


def with_heartbeat(answer: Answer) -> Script:
    """Return a script: all versions are supported, and every heartbeat gets this response."""
    return lambda header, frame: every_version() if header.api_key == API_VERSIONS else answer


def offering(*keys: ApiVersion) -> Script:
    """Return a script: only these versions are supported, and heartbeats succeed."""
    versions = ApiVersionsResponse(api_keys=list(keys))
    return lambda header, frame: versions if header.api_key == API_VERSIONS else HeartbeatResponse()


def test_a_request_uses_the_newest_version_that_both_sides_support(start_node: StartNode) -> None:
    """That is the node's newest version if the client's is newer. The caller can choose an older one."""
    node = start_node(offering(ApiVersion(api_key=HEARTBEAT, min_version=0, max_version=2)))
    with connect(node) as connection:
        assert connection.request(HeartbeatRequest()) == HeartbeatResponse()
        connection.request(HeartbeatRequest(), at_most=1)
        connection.request(HeartbeatRequest(), version=0)
    assert node.requests[1:] == [(HEARTBEAT, 2), (HEARTBEAT, 1), (HEARTBEAT, 0)]


def test_a_request_without_a_common_version_is_not_sent(start_node: StartNode) -> None:
    """The error names the API and the versions. The connection stays open."""
    node = start_node(
        offering(
            ApiVersion(api_key=HEARTBEAT, min_version=0, max_version=4),
            ApiVersion(api_key=1, min_version=13, max_version=18),
        )
    )
    with connect(node) as connection:
        with pytest.raises(VersionNotSupported, match=r"does not support ListGroups$"):
            connection.request(ListGroupsRequest())
        with pytest.raises(
            VersionNotSupported, match="does not support PausePartitions, which only Headgate has"
        ):
            connection.request(PausePartitionsRequest())
        with pytest.raises(VersionNotSupported, match="supports Fetch 13 to 18; one of 4 to 12 is needed"):
            connection.request(FetchRequest(), at_most=12)
        assert connection.request(HeartbeatRequest()) == HeartbeatResponse()
    assert node.requests == [(API_VERSIONS, 4), (HEARTBEAT, 4)]


def test_an_old_node_is_asked_for_its_versions_in_version_0(start_node: StartNode) -> None:
    """A node that refuses the client's ApiVersions responds in version 0, with any content."""
    refusal = b"\x00\x23\x01\x00\x12"

    def old_node(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == API_VERSIONS and header.api_version > 0:
            content = header.correlation_id.to_bytes(4, "big") + refusal
            return len(content).to_bytes(4, "big") + content
        return offering(ApiVersion(api_key=HEARTBEAT, max_version=1))(header, frame)

    node = start_node(old_node)
    with connect(node) as connection:
        assert connection.versions == {HEARTBEAT: (0, 1)}
    assert node.requests == [(API_VERSIONS, 4), (API_VERSIONS, 0)]


def test_a_port_without_a_server_fails_immediately_with_its_address() -> None:
    """The message has the address and the reason."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionFailed, match=f"no connection to 127.0.0.1:{port}: Connection refused"):
        Connection("127.0.0.1", port)


def test_a_node_that_does_not_respond_times_out(start_node: StartNode) -> None:
    """The call ends after its timeout and closes the connection, so that a late response is not misread."""
    connection = connect(start_node(with_heartbeat(None)), timeout_s=0.2)
    started = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"did not answer Heartbeat within 0\.2 s"):
        connection.request(HeartbeatRequest())
    assert 0.15 < time.monotonic() - started < 3
    assert not connection.is_open
    with pytest.raises(ConnectionFailed, match="is closed"):
        connection.request(HeartbeatRequest())


def test_the_timeout_is_extended_for_a_request_that_lets_the_node_wait(start_node: StartNode) -> None:
    """A long poll does not time out."""

    def slow(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == HEARTBEAT:
            time.sleep(0.5)
        return with_heartbeat(HeartbeatResponse())(header, frame)

    with connect(start_node(slow), timeout_s=0.3) as connection:
        assert connection.request(HeartbeatRequest(), extra_time_s=5) == HeartbeatResponse()


def test_a_second_thread_is_refused(start_node: StartNode) -> None:
    """It would read the answer of the first, which gets its own."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def waiting(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == HEARTBEAT:
            is_asked.set()
            may_answer.wait(10)
        return with_heartbeat(HeartbeatResponse())(header, frame)

    with connect(start_node(waiting)) as connection, ThreadPoolExecutor(1) as other:
        first = other.submit(connection.request, HeartbeatRequest())
        assert is_asked.wait(10)
        with pytest.raises(RuntimeError, match="is in use by another thread; use one client for each thread"):
            connection.request(HeartbeatRequest())
        may_answer.set()
        assert first.result(10) == connection.request(HeartbeatRequest()) == HeartbeatResponse()


def test_a_closed_connection_differs_from_a_timeout(start_node: StartNode) -> None:
    """A closed connection is detected before the timeout."""
    connection = connect(start_node(with_heartbeat(CLOSE)))
    with pytest.raises(ConnectionFailed, match="lost during Heartbeat: closed by the other side"):
        connection.request(HeartbeatRequest())
    assert not connection.is_open


def test_an_idle_connection_that_the_node_has_closed_is_not_used(start_node: StartNode) -> None:
    """A request over it would be lost: of a change, nobody could tell whether it was made."""
    node = start_node(with_heartbeat(HeartbeatResponse()))
    connection = connect(node)
    assert connection.request(HeartbeatRequest()) == HeartbeatResponse()
    assert connection.is_open
    node.close_connections()
    deadline = time.monotonic() + 10
    while connection.is_open and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(ConnectionFailed, match="is closed"):
        connection.request(HeartbeatRequest())
    assert [key for key, _ in node.requests].count(HEARTBEAT) == 1


def test_a_port_that_closes_at_once_is_told_with_what_it_may_need() -> None:
    """Whether the end comes before or after the first request is sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=accept, daemon=True).start()
        for _ in range(50):
            with pytest.raises(ConnectionFailed, match=r"security\.protocol"):
                Connection(host, port, 5)
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (response_frame(99, HEARTBEAT, 4, HeartbeatResponse()), "correlation id 99, expected 2"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x02\x00", "HeartbeatResponse v4 is truncated"),
        (b"\x00\x00\x00\x02\x00\x00", "response header: truncated at 2 bytes"),
        (b"\xff\xff\xff\xff", "a frame cannot have the length -1"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of 1213486160 bytes"),
    ],
    ids=[
        "another correlation id",
        "truncated message",
        "truncated header",
        "negative length",
        "another protocol",
    ],
)
def test_an_invalid_response_closes_the_connection(start_node: StartNode, answer: bytes, reason: str) -> None:
    """Invalid bytes are not taken for the response, nor for the next one."""
    connection = connect(start_node(with_heartbeat(answer)))
    with pytest.raises(BadResponse, match=reason):
        connection.request(HeartbeatRequest())
    assert not connection.is_open


def test_a_port_of_another_protocol_is_told(start_node: StartNode) -> None:
    """The first bytes are no response of a broker: the message says what to check."""
    node = start_node(lambda header, frame: b"SSH-2.0-OpenSSH_9.2\r\n")
    with pytest.raises(
        BadResponse, match=r"a frame of .* bytes; .*; check that a Kafka broker listens there"
    ):
        connect(node)

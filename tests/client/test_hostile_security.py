"""Servers of TLS, SASL and OAuth that lie, hang or end in the middle: an error each, and no secret in it."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.client.conftest import StartNode
from tests.client.scripted import Answer, Script, every_version
from tests.differential.certificates import new_authority

from headgate.admin import Admin, AuthenticationFailed, ClientError, NoNodeReachable, TlsFailed
from headgate.broker import run
from headgate.client.cluster import Cluster, is_passing
from headgate.client.connection import Connection
from headgate.client.errors import (
    AuthenticationInterrupted,
    BadResponse,
    ConnectionFailed,
    RequestTimedOut,
    TlsInterrupted,
)
from headgate.client.security import NOT_SECURED, Security, tokens
from headgate.client.security.tokens import ClientCredentials, FileToken, TokenFailed
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.api_versions import ApiVersionsResponse
from headgate.wire.messages.metadata import MetadataRequest
from headgate.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from headgate.wire.messages.sasl_handshake import SaslHandshakeResponse

API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
PASSWORD = "s3cret"
Serve = Callable[[socket.socket], None]
Listen = Callable[[Serve], str]


def sasl(mechanism: str) -> Security:
    """The security of alice, without TLS."""
    return Security.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }
    )


def answering(*answers: SaslAuthenticateResponse) -> Script:
    """A script that accepts any mechanism, and has these answers to its messages."""
    left = list(answers)

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == API_VERSIONS:
            return every_version()
        if header.api_key == HANDSHAKE:
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        return left.pop(0) if left else None

    return script


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Start servers of bytes; each connection is served in a thread."""
    with contextlib.ExitStack() as stack:

        def start(serve: Serve) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run(connection: socket.socket) -> None:
                with connection, contextlib.suppress(OSError):
                    serve(connection)

            def accept() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        threading.Thread(target=run, args=(listener.accept()[0],), daemon=True).start()

            threading.Thread(target=accept, daemon=True).start()
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield start


# --- SASL ---


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_long_reason_is_shortened(start_node: StartNode, mechanism: str) -> None:
    """A server writes what it likes; a message is one line that people read."""
    node = start_node(answering(SaslAuthenticateResponse(error_code=58, error_message="no " * 10_000)))
    with pytest.raises(AuthenticationFailed) as raised:
        Connection(node.host, node.port, 5, security=sasl(mechanism))
    assert len(str(raised.value)) < 700
    assert PASSWORD not in str(raised.value)


def test_an_answer_of_huge_size_is_not_awaited(listen: Listen) -> None:
    """Before the server has proved anything, nobody waits for a gigabyte of it."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(struct.pack(">i", 900 << 20))
        for _ in range(100):
            connection.sendall(bytes(1 << 20))

    host, port = listen(serve).split(":")
    with pytest.raises(BadResponse, match="a frame of 943718400 bytes; the limit is 1048576"):
        Connection(host, int(port), 5)


def test_a_server_that_delays_each_step_is_given_up_after_the_timeout(start_node: StartNode) -> None:
    """The timeout is one for connecting with all that belongs to it, not one for each message."""
    answer = answering(SaslAuthenticateResponse())

    def slowly(header: RequestHeader, frame: bytes) -> Answer:
        time.sleep(0.4)
        return answer(header, frame)

    node = start_node(slowly)
    with pytest.raises(RequestTimedOut):
        Connection(node.host, node.port, 1.0, security=sasl("PLAIN"))


@pytest.mark.parametrize("token", ["", "two words", "ä", "a\x01auth=Bearer b"])
def test_a_function_that_returns_no_token_is_an_error(start_node: StartNode, token: str) -> None:
    """Nothing of it is sent, and it is not repeated."""
    node = start_node(answering(SaslAuthenticateResponse()))
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(AuthenticationFailed, match="what the function returned is no token"):
        Connection(node.host, node.port, 5, security=Security.of(properties, token=lambda: token))
    assert AUTHENTICATE not in [key for key, _ in node.requests]


def test_a_first_message_with_a_name_twice_is_refused(start_node: StartNode) -> None:
    """Which of both would count is not to be guessed."""
    twice = SaslAuthenticateResponse(auth_bytes=b"r=x,s=W22Z,i=4096,i=9999")
    node = start_node(answering(twice))
    with pytest.raises(AuthenticationFailed, match="is not SCRAM"):
        Connection(node.host, node.port, 5, security=sasl("SCRAM-SHA-256"))


# --- TLS ---


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, `ca.pem`, and what it has signed for this machine, `server.pem`."""
    authority = new_authority(tmp_path_factory.mktemp("tls") / "authority")
    authority.issue("server", "IP:127.0.0.1")
    return authority.directory


def tls(trusted: Path) -> Security:
    """The security of a client that trusts the authority."""
    return Security.of({"security.protocol": "SSL", "ssl.ca.location": str(trusted / "ca.pem")})


def encrypted(trusted: Path, serve: Serve) -> Serve:
    """Serve over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted / "server.pem")

    def wrapped(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            serve(secured)

    return wrapped


def reset(connection: socket.socket) -> None:
    """Close a connection as a process that is killed."""
    connection.recv(100)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def end(connection: socket.socket) -> None:
    """Close a connection after the client's first message."""
    connection.recv(4096)


@pytest.mark.parametrize("ending", [reset, end])
def test_the_next_server_is_tried_if_one_ends_in_the_handshake(
    listen: Listen, trusted: Path, ending: Serve
) -> None:
    """A broker that stops does that; it is no reason to give up the others."""

    def versions(connection: socket.socket) -> None:
        while frame := connection.recv(4096):
            body = bytes(ApiVersionsResponse.VERSIONS[1] * 0) + b"\0\0\1" + bytes(5)
            connection.sendall(struct.pack(">i", 4 + len(body)) + frame[8:12] + body)

    away, there = listen(ending), listen(encrypted(trusted, versions))
    with Cluster(f"{away},{there}", 5, security=tls(trusted)) as cluster:
        assert cluster.any_node().address == there
    with Cluster(away, 5, security=tls(trusted)) as cluster, pytest.raises(TlsFailed) as raised:
        cluster.any_node()
    assert not isinstance(raised.value, NoNodeReachable)
    assert f"{away} does not answer in TLS" in str(raised.value)
    host, port = away.split(":")
    with pytest.raises(TlsInterrupted) as interrupted:
        Connection(host, int(port), 5, security=tls(trusted))
    assert is_passing(interrupted.value)  # of a node that the cluster named, which can be restarting


def test_a_connection_that_ends_later_is_no_error_of_tls(listen: Listen, trusted: Path) -> None:
    """A broker that is killed closes connections that are idle: the request is sent again."""
    connected, closed = threading.Event(), threading.Event()

    def once(connection: socket.socket) -> None:
        frame = connection.recv(4096)
        body = b"\0\0\2" + b"\0\3\0\0\0\4\0" + bytes(5)
        connection.sendall(struct.pack(">i", 4 + len(body)) + frame[8:12] + body)
        assert connected.wait(5)
        raw = socket.socket(fileno=connection.detach())
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
        closed.set()

    host, port = listen(encrypted(trusted, once)).split(":")
    connection = Connection(host, int(port), 5, security=tls(trusted))
    connected.set()
    assert closed.wait(5)
    for _ in range(2):
        with pytest.raises(ConnectionFailed) as raised:
            connection.request(MetadataRequest())
        assert not isinstance(raised.value, TlsFailed)


def test_a_server_that_is_silent_in_the_handshake_is_given_up(listen: Listen, trusted: Path) -> None:
    """After the timeout, also if it sends a byte now and then."""

    def drip(connection: socket.socket) -> None:
        connection.recv(4096)
        for byte in b"\x16\x03\x03\x10\x00" + bytes(100):
            connection.sendall(bytes([byte]))
            time.sleep(0.1)

    host, port = listen(drip).split(":")
    with pytest.raises(RequestTimedOut, match="no TLS handshake with"):
        Connection(host, int(port), 0.5, security=tls(trusted))


def test_certificates_can_be_one_line_with_blanks(listen: Listen, trusted: Path) -> None:
    """As in a property with continued lines, which Kafka's clients read."""
    text = " ".join((trusted / "ca.pem").read_text().split("\n"))
    security = Security.of({"security.protocol": "SSL", "ssl.truststore.certificates": text})
    context = security.context()
    assert context is not None
    assert len(context.get_ca_certs()) == 1


# --- addresses ---


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "a\0b", ".", "ä" * 64])
@pytest.mark.parametrize("security", [{}, {"security.protocol": "SSL"}])
def test_a_host_that_cannot_exist_is_an_error_of_the_connection(host: str, security: dict[str, str]) -> None:
    """Of the user or of a broker that advertises it."""
    with pytest.raises(ClientError, match=r"no connection to|no certificate can have"):
        Connection(host, 9092, 2, security=Security.of(security))


@pytest.mark.parametrize("port", [-1, 65_536, 1 << 31])
def test_a_port_that_a_broker_cannot_have_is_an_error_of_the_connection(port: int) -> None:
    """As it is advertised."""
    with pytest.raises(ConnectionFailed, match="no connection to"):
        Connection("127.0.0.1", port, 2)


def test_a_port_that_does_not_exist_is_no_address() -> None:
    """Of the user."""
    with pytest.raises(ValueError, match="not an address of the form host:port"):
        Admin("127.0.0.1:65536")


# --- OAuth ---


def http(answer: bytes) -> Serve:
    """A server that has one answer to everything."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass

    return serve


def json_of(**values: object) -> bytes:
    """An answer with a document."""
    body = json.dumps(values).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "no token from"),
        (b"\xff\xfe garbage\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: zero\r\n\r\n{}", "did not answer with a token in JSON"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}",
            "did not answer with a token|does not answer in HTTP",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000, "did not answer with a token in JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2 << 20), "no complete answer"),
        (json_of(access_token=5), "did not answer with a token in JSON"),
        (json_of(access_token="two words"), "did not answer with a token in JSON"),
        (json_of(access_token="a\x01b"), "did not answer with a token in JSON"),
        (json_of(access_token="\ud800"), "did not answer with a token in JSON"),
        (json_of(access_token="a", expires_in=10**400), "did not answer with a token in JSON"),
        (json_of(access_token="a", expires_in="soon"), "did not answer with a token in JSON"),
        (json_of(access_token="a", expires_in=[]), None),
        (b"HTTP/1.1 401 \x1b[2J\r\n\r\n", "401"),
    ],
)
def test_a_hostile_oauth_server_is_an_error(listen: Listen, answer: bytes, reason: str | None) -> None:
    """Whatever it answers; the secret is not in the message."""
    source = ClientCredentials(f"http://{listen(http(answer))}/token", "alice", PASSWORD, None, None)
    if reason is None:
        assert source.token(2) == "a"
        return
    with pytest.raises(TokenFailed, match=reason) as raised:
        source.token(2)
    assert PASSWORD not in str(raised.value)


def test_a_redirect_is_not_followed(listen: Listen) -> None:
    """The secret would go to another server, perhaps without TLS."""
    seen: list[bytes] = []

    def thief(connection: socket.socket) -> None:
        seen.append(connection.recv(65_536))
        connection.sendall(json_of(access_token="a"))

    to = listen(thief)
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://{to}/x\r\nContent-Length: 0\r\n\r\n".encode()
    source = ClientCredentials(f"http://{listen(http(moved))}/token", "alice", PASSWORD, None, None)
    with pytest.raises(TokenFailed, match=r"answers with a redirect \(302\), which is not followed"):
        source.token(2)
    assert seen == []


def test_an_oauth_server_that_drips_is_given_up(listen: Listen) -> None:
    """After the timeout, which is one for the whole answer."""

    def drip(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100):
            connection.sendall(b" ")
            time.sleep(0.1)

    source = ClientCredentials(f"http://{listen(drip)}/token", "alice", PASSWORD, None, None)
    with pytest.raises(TokenFailed, match=r"no complete answer within 0\.5 s"):
        source.token(0.5)


@pytest.mark.parametrize("expires_in", [float("nan"), float("inf")])
def test_a_lifetime_that_is_no_time_is_not_believed(listen: Listen, expires_in: float) -> None:
    """A token is not used for ever."""
    asked: list[int] = []

    def count(connection: socket.socket) -> None:
        connection.recv(65_536)
        asked.append(1)
        connection.sendall(json_of(access_token=f"token-{len(asked)}", expires_in=expires_in))

    source = ClientCredentials(f"http://{listen(count)}/token", "alice", PASSWORD, None, None)
    source.token(2)
    assert tokens._tokens[source][1] < time.monotonic() + 86_401


def test_a_token_that_a_broker_refuses_is_not_used_again(listen: Listen, start_node: StartNode) -> None:
    """The OAuth server may have withdrawn it: the next connection has another one."""
    asked: list[int] = []

    def count(connection: socket.socket) -> None:
        connection.recv(65_536)
        asked.append(1)
        connection.sendall(json_of(access_token=f"token-{len(asked)}", expires_in=600))

    refused = SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')
    failed = SaslAuthenticateResponse(error_code=58, error_message="invalid_token")
    node = start_node(answering(refused, failed, SaslAuthenticateResponse()))
    security = Security.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"http://{listen(count)}/token",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": PASSWORD,
        }
    )
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        Connection(node.host, node.port, 5, security=security)
    Connection(node.host, node.port, 5, security=security).close()
    assert len(asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_token_server_that_is_away_may_come_back(
    listen: Listen, start_node: StartNode, answer: bytes
) -> None:
    """A membership goes on after a pause; a command says it at once, as its URL may be wrong."""
    node = start_node(answering())
    security = Security.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"http://{listen(http(answer))}/token",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": PASSWORD,
        }
    )
    with pytest.raises(AuthenticationInterrupted) as interrupted:
        Connection(node.host, node.port, 5, security=security)
    assert isinstance(interrupted.value, ConnectionFailed)
    began = time.monotonic()
    admin = Admin(f"{node.host}:{node.port}", 30, security=security)
    with admin, pytest.raises(AuthenticationFailed, match="/token") as failed:
        admin.topics()
    assert type(failed.value) is AuthenticationFailed
    assert time.monotonic() - began < 20
    with Cluster(f"{node.host}:{node.port}", 1, security=security) as reached:
        reached._was_reached = True  # its URL is right
        with pytest.raises(NoNodeReachable):
            reached.any_node()


def test_a_fork_while_another_thread_asks_for_a_token_leaves_the_child_able_to_ask(listen: Listen) -> None:
    """The other thread is not in the child, and would have the lock for ever."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def slow(connection: socket.socket) -> None:
        connection.recv(65_536)
        is_asked.set()
        may_answer.wait(20)
        connection.sendall(json_of(access_token="a"))

    source = ClientCredentials(f"http://{listen(slow)}/token", "fork", PASSWORD, None, None)
    asking = threading.Thread(target=source.token, args=(20,))
    asking.start()
    assert is_asked.wait(20)
    lock = tokens._lock
    assert lock.locked()
    tokens._after_fork()  # what `os.fork` calls in the child
    assert not tokens._lock.locked()
    may_answer.set()
    asking.join()
    assert not lock.locked()


def test_a_file_without_a_token_is_named(tmp_path: Path) -> None:
    """One that is empty, has several lines, or other bytes; what it has is not repeated."""
    file = tmp_path / "token"
    for content in (b"", b"one\ntwo\n", b"secret \xff\xfe", b64encode(bytes(9)) + b"\0"):
        file.write_bytes(content)
        with pytest.raises(TokenFailed, match="has no token") as raised:
            FileToken(file).token(1)
        assert "secret" not in str(raised.value)


def test_a_server_that_knows_no_sasl_is_told_with_the_property_to_change() -> None:
    """It does not have the request, and closes a connection that sends one: that is not sent."""
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    with (
        run() as broker,
        Cluster(broker.bootstrap_servers, 10.0, security=Security.of(security)) as cluster,
        pytest.raises(AuthenticationFailed, match="has no SASL on this port; set security"),
    ):
        cluster.any_node()


def test_a_plain_connection_to_a_port_with_tls_is_told_what_to_set(listen: Listen) -> None:
    """At once, without TLS and with SASL alone; a server that runs is not to be looked for."""

    def alert(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"\x15\x03\x03\0\x02\x02\x50")

    address = listen(alert)
    for security, protocols in ((NOT_SECURED, "SSL or SASL_SSL"), (sasl("PLAIN"), "SASL_SSL")):
        with Cluster(address, 5, security=security) as cluster, pytest.raises(TlsFailed) as raised:
            cluster.metadata()
        told = str(raised.value)
        assert f"{address} answers in TLS; set security.protocol to {protocols} in the file" in told
        assert told.endswith("or in Spark by the option kafka.security.protocol")


def test_a_port_that_needs_sasl_is_told_after_all_attempts(listen: Listen, trusted: Path) -> None:
    """It answers ApiVersions and closes at the next request: the last error says so, and no timeout does."""

    def once(connection: socket.socket) -> None:
        frame = connection.recv(4096)
        body = b"\0\0\2" + b"\0\3\0\0\0\4\0" + bytes(5)
        connection.sendall(struct.pack(">i", 4 + len(body)) + frame[8:12] + body)
        connection.recv(4096)

    with (
        Cluster(listen(encrypted(trusted, once)), 2, security=tls(trusted)) as cluster,
        pytest.raises(ConnectionFailed, match="needs SASL too, set security"),
    ):
        cluster.metadata()

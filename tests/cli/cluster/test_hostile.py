"""Commands and hostile surroundings: impossible names, servers that hang or are something else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.cli.cluster.conftest import Headgate

pytestmark = pytest.mark.timeout(60)

NAMES = ["x" * 40_000, "\udcff\udcfe", "", " ", "..", "a\x00b", "\x1b[2Jname", "—", "-"]
COMMANDS = [
    ("topics", "--create", "--topic={}"),
    ("topics", "--describe", "--topic={}"),
    ("configs", "--describe", "--topic={}"),
    ("configs", "--describe", "--group={}"),
    ("configs", "--alter", "--topic={}", "--add-config", "retention.ms=1"),
    ("consume", "--topic={}", "--to-end"),
    ("consume", "--topic={}", "--group={}", "--timeout-ms=10"),
    ("produce", "--topic={}"),
    ("lag", "--group={}"),
    ("consumer-groups", "--describe", "--group={}"),
    ("share-groups", "--describe", "--group={}"),
    ("transactions describe", "--transactional-id={}"),
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:10]))
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_impossible_name_is_an_error_and_no_traceback(
    headgate: Headgate, words: tuple[str, ...], name: str
) -> None:
    """In a message that does not change the terminal."""
    command, *rest = (word.format(name) for word in words)
    done = headgate(command, *rest, stdin="x\n")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (0, 1, 2)
    assert "\x1b[2J" not in done.output


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(
    params=[b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x04\x00\x00\x00\x09", b"\xff" * 64]
)
def strange(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that answers something that is not Kafka's protocol."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(request.param)
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


EVERY = [
    ("topics", "--list"),
    ("configs", "--describe", "--entity-type", "topics"),
    ("groups", "--list"),
    ("lag",),
    ("consume", "--topic", "t", "--to-end"),
    ("produce", "--topic", "t"),
]


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_a_server_that_hangs_is_given_up(headgate: Headgate, silent: str, words: tuple[str, ...]) -> None:
    """After --timeout; the message names the address and the option."""
    done = headgate(*words, "--bootstrap-server", silent, "--timeout", "300", stdin="x\n")
    assert (done.exit_code, done.stdout) == (1, "")
    assert silent in done.stderr


@pytest.mark.parametrize("words", EVERY[:2], ids=" ".join)
def test_a_server_of_another_protocol_is_named(
    headgate: Headgate, strange: str, words: tuple[str, ...]
) -> None:
    """Not taken for an empty cluster."""
    done = headgate(*words, "--bootstrap-server", strange, "--timeout", "500")
    assert (done.exit_code, done.stdout) == (1, "")
    assert strange in done.stderr

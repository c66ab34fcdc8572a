"""Fixtures of the server's tests: a server process, and raw connections to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.server.raw import RawConnection

from headgate.broker import Broker, run


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

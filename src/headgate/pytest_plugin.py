"""The pytest fixture `headgate_broker`: one broker for the whole test session.

The installed package provides it; no import is needed:

    def test_orders_are_consumed(headgate_broker):
        producer = Producer({"bootstrap.servers": headgate_broker.bootstrap_servers})

The option `headgate_settings` of pytest's configuration holds settings, one `name=value` per line.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.broker import Broker, run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the configuration option."""
    parser.addini(
        "headgate_settings", "Broker settings of headgate_broker, one name=value a line.", "linelist"
    )


@pytest.fixture(scope="session")
def headgate_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A running Headgate broker, shared by the session: use different topics and groups in each test."""
    pairs = (line.partition("=") for line in pytestconfig.getini("headgate_settings"))
    with run({name.strip(): value.strip() for name, _, value in pairs}) as broker:
        yield broker

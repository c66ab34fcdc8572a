"""The commands in this process, with a server of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.broker import run
from headgate.cli import app

Headgate = Callable[..., Result]
_numbers = itertools.count()


@pytest.fixture(scope="package")
def bootstrap_servers() -> Iterator[str]:
    """Start a server with few partitions of its own topics."""
    with run({"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def headgate(bootstrap_servers: str) -> Headgate:
    """Run a command with that server; `stdin` is its input."""

    def invoke(command: str, *arguments: str | Path, stdin: str | bytes | None = None) -> Result:
        words = [*command.split(), *map(str, arguments)]
        if "--bootstrap-server" not in words:
            words += ["--bootstrap-server", bootstrap_servers]
        return CliRunner().invoke(app, words, input=stdin)

    return invoke


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a topic or group that nothing else uses."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in request.node.originalname)
    return f"{plain[:60]}-{next(_numbers)}"

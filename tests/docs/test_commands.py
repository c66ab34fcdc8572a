"""The command lines of the README's first steps and of the page of commands run, in order, as written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.broker import run
from headgate.cli import app

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server() -> Iterator[str]:
    """A server with nothing in it."""
    with run() as broker:
        yield broker.bootstrap_servers


def execute(line: str, server: str) -> str:
    """Run a line of a document, with the text of its `echo`; return what it prints."""
    before, _, command = line.rpartition("| ")
    program, *words = shlex.split(command)
    assert program == "headgate"
    text = None if not before else shlex.split(before)[1] + "\n"
    done = CliRunner().invoke(app, [*words, "--bootstrap-server", server], input=text)
    assert done.exit_code == 0, (line, done.output)
    return done.stdout


def test_the_first_steps_run(server: str) -> None:
    """The greeting is read, and the reset takes the group back to the start."""
    steps = (ROOT / "README.md").read_text().partition("## Three first steps")[2].partition("## The demo")[0]
    serve, *blocks = re.findall(r"```\n(.*?)```", steps, re.DOTALL)
    assert serve == "headgate serve --data-dir ./data\n"
    printed = [execute(line, server) for block in blocks for line in block.splitlines()]
    assert printed[1] == "hello\n"
    assert re.search(r"^readers +greetings +0 +1 +1 +0 ", printed[2], re.MULTILINE)
    assert re.search(r"^readers +greetings +0 +1 +0$", printed[3], re.MULTILINE)
    assert re.search(r"^readers +greetings +1 +1 ", printed[4], re.MULTILINE)


def test_the_page_of_commands_runs(server: str) -> None:
    """Every line of its first block."""
    (block,) = re.findall(
        r"```\n(headgate topics --create.*?)```", (ROOT / "docs/commands.md").read_text(), re.DOTALL
    )
    printed = [execute(line, server) for line in block.splitlines()]
    assert "key-1\thello\n" in printed

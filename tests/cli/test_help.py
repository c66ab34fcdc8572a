"""The help texts of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from headgate.cli import app


def commands(group: Any, name: str = "headgate") -> Iterator[tuple[str, Any]]:
    """Yield all commands below a group, by their whole names."""
    for word, command in getattr(group, "commands", {}).items():
        yield f"{name} {word}", command
        yield from commands(command, f"{name} {word}")


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_terminal_breaks_the_lines(name: str) -> None:
    """A line of the source is no line of the help: only paragraphs are kept apart."""
    text = COMMANDS[name].help
    assert text
    assert all("\n" not in paragraph for paragraph in text.split("\n\n"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_flag_has_no_type_in_the_help(name: str) -> None:
    """A reader of `--list <bool>` would write `--list true`."""
    for option in COMMANDS[name].params:
        if getattr(option, "is_flag", False):
            assert option.metavar == "", option.opts


@pytest.mark.parametrize("name", COMMANDS)
def test_the_server_has_a_default(name: str) -> None:
    """No command of a cluster demands --bootstrap-server, which the documents say has a default."""
    for option in COMMANDS[name].params:
        assert "--bootstrap-server" not in option.opts or not option.required

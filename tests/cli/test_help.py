"""The help texts of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headgate.cli import app
from headgate.server.log_lines import AREAS


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
def test_the_help_has_whole_names_and_no_types_of_flags(name: str) -> None:
    """In 80 columns. A reader of `--list <bool>` would write `--list true`; a cut name cannot be typed."""
    shown = CliRunner().invoke(app, [*name.split()[1:], "--help"], env={"COLUMNS": "80"}).stdout
    assert "<bool>" not in shown
    words = {word for words in shown.split() for word in words.split(",")}
    assert {one for option in COMMANDS[name].params for one in option.opts if one[:2] == "--"} <= words


def test_names_are_folded_in_a_narrow_terminal() -> None:
    """So that there is place for the descriptions."""
    words = ["transactions", "forceTerminateTransaction", "--help"]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "40"}).stdout
    first_panel = shown.partition("╰")[0].splitlines()
    names = "".join(line[5:15] for line in first_panel if line.startswith("│ "))
    assert names.replace(" ", "") == "--transactional-id,--transactionalId--help"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_server_has_a_default(name: str) -> None:
    """No command of a cluster demands --bootstrap-server, which the documents say has a default."""
    for option in COMMANDS[name].params:
        assert "--bootstrap-server" not in option.opts or not option.required


def test_the_help_of_serve_names_every_area_of_the_log() -> None:
    """An area that nobody knows of gets no level of its own."""
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    assert f"The areas are {', '.join(AREAS)}." in " ".join(shown.replace("│", " ").split())

"""Completion in a shell: every command, every option, and the values of --output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import typer
from typer.core import TyperGroup, TyperOption
from typer.testing import CliRunner

from headgate.cli import app

Path = tuple[str, ...]


def commands(command: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield all commands that are not groups, with the words that call them."""
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from commands(below, (*path, name))


COMMANDS = list(commands(typer.main.get_command(app)))


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last of these words."""
    environment = {
        "_HEADGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["headgate", *words]),
        "COMP_CWORD": str(len(words)),
    }
    return CliRunner().invoke(app, [], env=environment, prog_name="headgate").stdout.split()


def names_below(path: Sequence[str]) -> list[str]:
    return sorted({below[len(path)] for below, _ in COMMANDS if below[: len(path)] == tuple(path)})


@pytest.mark.parametrize("path", [(), ("log",), ("spark",), ("fleet",), ("transactions",)], ids=" ".join)
def test_the_names_of_commands_are_completed(path: Path) -> None:
    """All of them where nothing is typed yet."""
    assert sorted(completed(*path, "")) == names_below(path) != []


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_option_of_every_command_is_completed(path: Path, command: Any) -> None:
    """By its long names; --output with its values."""
    options = [one for one in command.params if isinstance(one, TyperOption) and not one.hidden]
    names = {name for one in options for name in one.opts if name.startswith("--")}
    assert names
    assert names <= set(completed(*path, "--"))
    for one in options:
        if "--output" in one.opts:
            assert completed(*path, "--output", "") == (one.metavar or "").split("|")

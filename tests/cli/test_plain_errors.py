"""Errors of the command line: one plain line on standard error, on every command."""

from __future__ import annotations

import pytest
from tests.cli.test_help import COMMANDS
from typer.testing import CliRunner, Result

from headgate.cli import app

LEAVES = [name.removeprefix("headgate ") for name, one in COMMANDS.items() if not hasattr(one, "commands")]


SEE_LAG = "see `headgate lag --help`"


def run(*words: str) -> Result:
    """Run a command line."""
    return CliRunner().invoke(app, list(words))


def the_line(result: Result) -> str:
    """Return the only line of standard error, of a command that was refused."""
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("name", LEAVES)
def test_an_unknown_option_is_named_with_the_nearest(name: str) -> None:
    """Or with the help to read, where none is near."""
    words = name.split()
    assert the_line(run(*words, "--hepl")) == "headgate: No such option --hepl; did you mean --help?"
    far = the_line(run(*words, "--zzzzzzzz=1"))
    assert far == f"headgate: No such option --zzzzzzzz; see `headgate {name} --help`"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("consumer-groups --describe --grop g", "No such option --grop; did you mean --group?"),
        (
            "consume --topic t --consumer-property group.id=g",
            "No such option --consumer-property; use --group or --isolation-level or --command-config",
        ),
        ("produce --topic t --broker-list b:1", "No such option --broker-list; use --bootstrap-server"),
        ("consumer-groups --redo --group g --all-topics", "--redo goes with --undo: it undoes an undo"),
        ("topics --list -x", "No such option -x; see `headgate topics --help`"),
        ("topik", "No such command 'topik'; did you mean 'topics'?"),
        ("zzzz", "No such command 'zzzz'; see `headgate --help`"),
        ("fleet rest", "No such command 'rest'; did you mean 'reset'?"),
        ("--verbose", "No such option --verbose; did you mean --version?"),
        ("lag --topic", "Option '--topic' requires an argument; see --help"),
        ("produce --akcs 1", "No such option --akcs; see `headgate produce --help`"),
        (
            "lag --bootstrap-server a --bootstrap-server b",
            f"--bootstrap-server is given more than once; {SEE_LAG}",
        ),
        (
            "consumer-groups --reset-offsets --group g --to-offset 5 --to-offset=6",
            "--to-offset is given more than once; see `headgate consumer-groups --help`",
        ),
        (
            "transactions find-hanging --broker-id 1 --broker-id 1",
            "--broker-id is given more than once; see `headgate transactions find-hanging --help`",
        ),
        ("lag --to\x1b[2J", rf"No such option --to\x1b[2J; {SEE_LAG}"),
    ],
)
def test_a_mistake_is_one_line(words: str, says: str) -> None:
    """With the culprit and what to do next, and nothing that changes the terminal."""
    assert the_line(run(*words.split())) == f"headgate: {says}"


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--data-dir"),
        ("import", "--from-kafka-log", "x", "--data-dir"),
        ("import", "--from-kafka-log"),
    ],
)
def test_an_empty_directory_name_is_not_the_working_directory(words: tuple[str, ...]) -> None:
    """As a variable of a shell that is not set gives it."""
    assert the_line(run(*words, "")) == (
        f"headgate: Invalid value for '{words[-1]}': a directory is expected, not an empty text; "
        f"see `headgate {words[0]} --help`"
    )


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        ("--interval fast", "Invalid value for '--interval': "),
        ("--interval 0", "Invalid value for '--interval': "),
        ("orders", "Got unexpected extra argument"),
    ],
)
def test_a_wrong_value_is_one_line(words: str, begin: str) -> None:
    """In the words of the library that parses it."""
    line = the_line(run("lag", *words.split()))
    assert line.startswith(f"headgate: {begin}")
    assert line.endswith(SEE_LAG)


@pytest.mark.parametrize("words", ["", "topics", "fleet"])
def test_a_command_without_arguments_prints_its_help(words: str) -> None:
    """And nothing else."""
    helped = run(*words.split())
    assert "Usage: headgate" in helped.output
    assert "headgate: " not in helped.stderr

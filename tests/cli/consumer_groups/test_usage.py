"""What cannot be meant is refused in words that help; durations and dates are read as Kafka's tool does."""

from __future__ import annotations

import pytest
from tests.cli.support import START_MS, Command
from typer.testing import CliRunner

from headgate.admin import RequestRefused
from headgate.cli import app
from headgate.cli.consumer_groups.advice import in_words
from headgate.cli.consumer_groups.arguments import parse_datetime, parse_duration
from headgate.cli.consumer_groups.usage import UsageProblem
from headgate.domain.errors import ErrorCode

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--describe", "--group or --all-groups is expected with --describe"),
        ("--list --describe", "--list and --describe: one of them is expected"),
        ("--group g", "--undo, --pause, --resume, --paused-partitions or --rewind is expected"),
        ("--describe --group g --execute", "--execute does not go with --describe"),
        ("--describe --group g --members --state", "--members and --state: one of them"),
        ("--reset-offsets --group g --topic t", "--to-earliest, --to-latest"),
        ("--reset-offsets --group g --to-latest", "which partitions? --topic TOPIC"),
        ("--reset-offsets --group g --topic t --to-latest --to-earliest", "one of them is expected"),
        ("--reset-offsets --group g --topic t:x --to-latest", "--topic t:x: TOPIC or TOPIC:0,1"),
        ("--reset-offsets --group g --topic t --to-datetime today", "2026-11-21T08:30:00"),
        ("--reset-offsets --group g --topic t --by-duration 3h", "P7D, PT12H or P1DT2H3M4S"),
        ("--delete-offsets --group g", "--topic is expected with --delete-offsets"),
        ("--list --output xml", "table, json or csv"),
        ("--list --bootstrap-server nowhere", "not an address of the form host:port"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(command: Command, words: str, says: str) -> None:
    """Exit code 2, one line."""
    refused = command(*words.split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("headgate: ")
    assert says in refused.stderr


def test_a_server_that_is_not_there_is_said_to_be_that(command: Command) -> None:
    """Exit code 1, and the option that names another."""
    refused = command("--list", "--bootstrap-server", "127.0.0.1:1")
    assert refused.exit_code == 1
    assert "no connection to 127.0.0.1:1" in refused.stderr
    assert "--bootstrap-server names another" in refused.stderr


def test_without_any_option_there_is_help() -> None:
    """As for every other command."""
    result = CliRunner().invoke(app, ["consumer-groups"])
    assert "Usage:" in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_help_tells_what_each_option_does() -> None:
    """By kinds, with examples."""
    text = CliRunner().invoke(app, ["consumer-groups", "--help"], env={"COLUMNS": "160"}).stdout
    for words in (
        "What to do: one of these",
        "--reset-offsets",
        "Where --reset-offsets and --rewind lead",
        "[STATES]",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P1DT2S", 86_402_000), ("pt0.25s", 250), ("PT0S", 0)],
)
def test_durations_are_of_iso_8601(text: str, duration_ms: int) -> None:
    """As Java's Duration reads them."""
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """With an example."""
    with pytest.raises(UsageProblem, match="a duration is expected"):
        parse_duration(text)


def test_dates_are_of_utc_unless_they_say_otherwise() -> None:
    """As Kafka's tool reads them."""
    assert parse_datetime("2023-11-14T22:13:20") == START_MS
    assert parse_datetime("2023-11-14T22:13:20.001Z") == START_MS + 1
    assert parse_datetime("2023-11-15T00:13:20+02:00") == START_MS


def test_groups_that_cannot_be_read_now_are_told_with_what_to_do() -> None:
    """The error's name alone says neither what is wrong nor where to look."""
    told = in_words(RequestRefused("the groups of n:1", ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert told.startswith("the groups of n:1: COORDINATOR_NOT_AVAILABLE; ")
    assert "look into the server's own log" in told


def test_the_command_that_is_advised_for_active_groups_can_be_meant(command: Command) -> None:
    """Whoever puts the group's name into it gets past the command line."""
    told = in_words(RequestRefused("group g", ErrorCode.NON_EMPTY_GROUP))
    advised = told.partition("`headgate consumer-groups ")[2].partition("`")[0]
    assert "there is no group called GROUP" in command(*advised.split()).stderr

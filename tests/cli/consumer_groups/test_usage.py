"""Invalid command lines are refused with advice; durations and dates are parsed like in Kafka's tool."""

from __future__ import annotations

import pytest
from tests.cli.support import START_MS, Command
from typer.testing import CliRunner

from headgate.admin import RequestRefused
from headgate.cli import app
from headgate.cli.advice import in_words
from headgate.cli.consumer_groups.arguments import parse_datetime, parse_duration
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.errors import ErrorCode

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--describe", "--group or --all-groups is expected with --describe"),
        ("--list --describe", "--list and --describe: one of them is expected"),
        (
            "--group g",
            "--undo, --pause, --resume, --paused-partitions, --rewind or --validate-regex is expected",
        ),
        ("--describe --group g --execute", "--execute cannot be combined with --describe"),
        ("--describe --group g --members --state", "--members and --state: one of them"),
        ("--reset-offsets --group g --topic t", "--to-earliest, --to-latest"),
        ("--reset-offsets --group g --to-latest", "the partitions are missing: --topic TOPIC"),
        ("--reset-offsets --group g --topic t --to-latest --to-earliest", "one of them is expected"),
        ("--reset-offsets --group g --topic t:x --to-latest", "--topic t:x: TOPIC or TOPIC:0,1"),
        ("--reset-offsets --group g --topic t --to-datetime today", "2026-11-21T08:30:00"),
        ("--reset-offsets --group g --topic t --to-offset -1", "should be greater than or equal to 0"),
        ("--reset-offsets --group g --topic t --by-duration 3h", "P7D, PT12H or P1DT2H3M4S"),
        ("--delete-offsets --group g", "--topic is expected with --delete-offsets"),
        ("--list --output xml", "table, json or csv"),
        ("--list --bootstrap-server nowhere", "not an address of the form host:port"),
    ],
)
def test_an_invalid_command_line_is_refused(command: Command, words: str, says: str) -> None:
    """The exit code is 2, and the message is one line."""
    refused = command(*words.split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("headgate: ")
    assert says in refused.stderr


@pytest.mark.parametrize(
    ("regex", "exit_code", "says"),
    [
        ("orders-.*", 0, "The regular expression `orders-.*` is valid.\n"),
        ("ord.*(", 1, "The regular expression `ord.*(` is invalid: missing ): ord.*(.\n"),
        (r"(a)\1", 1, "The regular expression `(a)\\1` is invalid: invalid escape sequence: \\1.\n"),
    ],
)
def test_a_regular_expression_is_checked_without_a_cluster(regex: str, exit_code: int, says: str) -> None:
    """The text is that of Kafka's tool, whose exit code is always 0."""
    words = ["consumer-groups", "--validate-regex", regex, "--bootstrap-server", "127.0.0.1:1"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (exit_code, says)


def test_an_unknown_topic_is_told_with_where_the_topics_are(command: Command) -> None:
    """A partition that does not exist is told with those that do."""
    reset = ("--reset-offsets", "--group", "g", "--create", "--to-latest", "--topic")
    topic, partition = command(*reset, "absent"), command(*reset, "flights:7")
    assert (topic.exit_code, partition.exit_code) == (1, 1)
    assert "absent: UNKNOWN_TOPIC_OR_PARTITION; `headgate topics --list` lists all" in topic.stderr
    assert partition.stderr.endswith("flights has the partitions 0 to 2)\n")


def test_a_missing_server_is_reported(command: Command) -> None:
    """The exit code is 1, and the message names the option for the address."""
    refused = command("--list", "--bootstrap-server", "127.0.0.1:1")
    assert refused.exit_code == 1
    assert "no connection to 127.0.0.1:1" in refused.stderr
    assert "or use another --bootstrap-server" in refused.stderr


def test_help_is_shown_without_options() -> None:
    """Like for every other command."""
    result = CliRunner().invoke(app, ["consumer-groups"])
    assert "Usage:" in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_help_describes_the_options() -> None:
    """In panels, with examples."""
    text = CliRunner().invoke(app, ["consumer-groups", "--help"], env={"COLUMNS": "160"}).stdout
    for words in (
        "Actions: one of these",
        "--reset-offsets",
        "Target of --reset-offsets and --rewind",
        "[STATES]",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P1DT2S", 86_402_000), ("pt0.25s", 250), ("PT0S", 0)],
)
def test_durations_are_in_iso_8601(text: str, duration_ms: int) -> None:
    """They have the format of Java's Duration."""
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    """The message has an example."""
    with pytest.raises(UsageProblem, match="a duration is expected"):
        parse_duration(text)


def test_dates_are_in_utc_unless_they_have_an_offset() -> None:
    """Kafka's tool parses them in the same way."""
    assert parse_datetime("2023-11-14T22:13:20") == START_MS
    assert parse_datetime("2023-11-14T22:13:20.001Z") == START_MS + 1
    assert parse_datetime("2023-11-15T00:13:20+02:00") == START_MS


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:00:00-05:00", "9999-12-31T23:59:59.999999", "0001-01-01T00:00:00+05:00"]
)
def test_a_date_that_is_in_another_year_in_utc_is_refused(text: str) -> None:
    """Python has no year 0 and no year 10000."""
    with pytest.raises(UsageProblem, match=r"--to-datetime .*: a time in the years 1 to 9999 \(UTC\)"):
        parse_datetime(text)


def test_the_error_for_groups_that_are_not_loaded_has_advice() -> None:
    """The name of the error code explains neither the reason nor the remedy."""
    told = in_words(RequestRefused("the groups of n:1", ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert told.startswith("the groups of n:1: COORDINATOR_NOT_AVAILABLE; ")
    assert "see the server's log" in told


def test_the_command_in_the_advice_for_active_groups_is_valid(command: Command) -> None:
    """With a group's name in place of GROUP it is a valid command line."""
    told = in_words(RequestRefused("group g", ErrorCode.NON_EMPTY_GROUP))
    advised = told.partition("`headgate consumer-groups ")[2].partition("`")[0]
    assert "there is no group called GROUP" in command(*advised.split()).stderr

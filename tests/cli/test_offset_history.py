"""`headgate consumer-groups --history`, `--offsets-as-of` and `--undo`, as a person at a shell meets them."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate.admin import Admin, CommittedOffset, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.domain.ids import TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

pytestmark = pytest.mark.timeout(60)
FIRST, SECOND = (TopicPartition(TopicName("flights"), index) for index in range(2))

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    """A server with the topic `flights`, two partitions."""
    with run({"headgate.durability": "page-cache"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            topic = CreatableTopic(name="flights", num_partitions=2, replication_factor=1)
            admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic]))
        yield broker.bootstrap_servers


@pytest.fixture
def command(bootstrap_servers: str) -> Command:
    """The command in this process, against that server."""

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(
            app, ["consumer-groups", "--bootstrap-server", bootstrap_servers, *arguments]
        )

    return invoke


@pytest.fixture
def group(bootstrap_servers: str, request: pytest.FixtureRequest) -> str:
    """A group that was at 4 in one partition, and was reset to 0 in both."""
    name = str(request.node.name)
    with Admin(bootstrap_servers) as admin:
        admin.alter_offsets(name, {FIRST: CommittedOffset(4, 2, "by hand")})
        time.sleep(0.01)
        admin.alter_offsets(name, {FIRST: 0, SECOND: 0})
    return name


def moment(time_s: float) -> str:
    """A time as the options take it."""
    return datetime.fromtimestamp(time_s, UTC).isoformat()


def rows(result: Result) -> list[list[str]]:
    """The lines of a table, the heading among them."""
    assert result.exit_code == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def as_json(result: Result) -> Any:
    """What was printed."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_changes_of_a_group_are_listed_newest_first(command: Command, group: str) -> None:
    """As a table, as CSV and as JSON, which says how far back it goes."""
    heading, *lines = rows(command("--history", "--group", group))
    assert heading[:5] == ["GROUP", "TIME", "TOPIC", "PARTITION", "CHANGE"]
    assert [[line[0], *line[2:]] for line in lines] == [
        [group, "flights", "1", "committed", "0", "-", "-"],
        [group, "flights", "0", "committed", "0", "-", "-"],
        [group, "flights", "0", "committed", "4", "2", "by", "hand"],
    ]
    asked = ("--history", "--group", group, "--topic", "flights:0", "--limit", "1")
    limited = command(*asked, "--output", "csv")
    assert [row["offset"] for row in csv.DictReader(io.StringIO(limited.stdout))] == ["0"]
    assert "older changes" in limited.stderr
    (told,) = as_json(command("--history", "--group", group, "--output", "json"))["groups"]
    assert (told["group"], told["known_since"], len(told["changes"])) == (group, None, 3)
    changed_at = told["changes"][0]["time"]
    assert len(rows(command("--history", "--group", group, "--since", changed_at))) == 3
    until = as_json(
        command("--history", "--group", group, "--until", told["changes"][2]["time"], "--output", "json")
    )
    assert [change["offset"] for change in until["groups"][0]["changes"]] == [4]


def test_offsets_are_shown_as_they_were(command: Command, group: str) -> None:
    """What was in force then, and since when."""
    history = as_json(command("--history", "--group", group, "--output", "json"))
    first = history["groups"][0]["changes"][2]["time"]
    _, line = rows(command("--offsets-as-of", first, "--group", group))
    assert line == [group, "flights", "0", "4", "2", "by", "hand", first]
    now = as_json(command("--offsets-as-of", moment(time.time() + 1), "--group", group, "--output", "json"))
    assert [each["offset"] for each in now["offsets"]] == [0, 0]
    assert (
        as_json(command("--offsets-as-of", "2020-01-01", "--group", group, "--output", "json"))["offsets"]
        == []
    )


def test_an_undo_is_shown_first_and_done_with_execute(command: Command, group: str) -> None:
    """The table is the same; what had no offset has none again; the next undo brings the reset back."""
    expected = [[group, "flights", "0", "0", "4", "by", "hand"], [group, "flights", "1", "0", "-", "-"]]
    shown = command("--undo", "--group", group, "--all-topics")
    assert rows(shown)[1:] == expected
    assert "the last change was at 20" in shown.stderr
    assert "--execute does it" in shown.stderr
    assert rows(command("--undo", "--group", group, "--topic", "flights", "--execute"))[1:] == expected
    described = rows(command("--describe", "--group", group))
    assert [line[2:4] for line in described[1:]] == [["0", "4"]]
    again = as_json(command("--undo", "--group", group, "--all-topics", "--execute", "--output", "json"))
    assert again["is_executed"] is True
    assert [each["new_offset"] for each in again["offsets"]] == [0, 0]


def test_a_reset_leads_to_what_offsets_were(command: Command, group: str) -> None:
    """Shown, exported, done; then there is nothing left to do."""
    history = as_json(command("--history", "--group", group, "--output", "json"))
    then: str = history["groups"][0]["changes"][2]["time"]
    asked = ("--reset-offsets", "--to-offsets-as-of", then, "--group", group, "--all-topics")
    assert [line[3:5] for line in rows(command(*asked))[1:]] == [["0", "4"], ["0", "-"]]
    assert command(*asked, "--export").stdout == "flights,0,4\n"
    assert command(*asked, "--execute").exit_code == 0
    assert "all offsets are what they were" in command(*asked, "--execute").stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--undo", "--group", "g"], "--topic or --all-topics is expected with --undo"),
        (["--undo", "--all-topics"], "--group or --all-groups is expected with --undo"),
        (["--history", "--group", "g", "--execute"], "--execute does not go with --history"),
        (["--history", "--group", "g", "--since", "monday"], "--since monday: a date and time is expected"),
        (["--offsets-as-of", "soon", "--group", "g"], "--offsets-as-of soon: a date and time is expected"),
        (["--offsets-as-of", "1969-01-01", "--group", "g"], "there were no offsets"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_would_do(
    command: Command, arguments: list[str], problem: str
) -> None:
    """On one line, exit code 2, nothing on standard output."""
    refused = command(*arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert problem in refused.stderr


def test_there_is_nothing_to_undo_for_a_group_nobody_knows(command: Command) -> None:
    """It is said, and the exit code is 1; its history is empty, which is no error."""
    refused = command("--undo", "--group", "nobody", "--all-topics", "--execute")
    assert refused.exit_code == 1
    assert "no change of group nobody is known" in refused.stderr
    assert "nothing is known of offsets of group nobody" in command("--history", "--group", "nobody").stderr

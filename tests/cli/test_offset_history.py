"""`headgate consumer-groups --history`, `--offsets-as-of` and `--undo`."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from headgate.admin import Admin, CommittedOffset, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.cli.connecting import caller
from headgate.domain.ids import TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.delete_topics import DeleteTopicsRequest

pytestmark = pytest.mark.timeout(60)
FIRST, SECOND = (TopicPartition(TopicName("flights"), index) for index in range(2))

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    """Start a server with the topic `flights` of two partitions."""
    with run({"headgate.durability": "page-cache"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            topic = CreatableTopic(name="flights", num_partitions=2, replication_factor=1)
            admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic]))
        yield broker.bootstrap_servers


@pytest.fixture
def command(bootstrap_servers: str) -> Command:
    """Run the command in this process with that server."""

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(
            app, ["consumer-groups", "--bootstrap-server", bootstrap_servers, *arguments]
        )

    return invoke


@pytest.fixture
def group(bootstrap_servers: str, request: pytest.FixtureRequest) -> str:
    """Create a group that committed 4 in one partition and was reset to 0 in both."""
    name = str(request.node.name)
    with Admin(bootstrap_servers) as admin:
        admin.alter_offsets(name, {FIRST: CommittedOffset(4, 2, "by hand")})
        time.sleep(0.01)
        admin.alter_offsets(name, {FIRST: 0, SECOND: 0})
    return name


def moment(time_s: float) -> str:
    """Return a time in the format of the options."""
    return datetime.fromtimestamp(time_s, UTC).isoformat()


def rows(result: Result) -> list[list[str]]:
    """Return the lines of a table, with the heading."""
    assert result.exit_code == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def as_json(result: Result) -> Any:
    """Return the printed JSON object."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def made_by(command: Command, group: str, *scope: str) -> list[tuple[str, str | None]]:
    """Return each change and who made it, the newest first."""
    (told,) = as_json(command("--history", "--group", group, *scope, "--output", "json"))["groups"]
    return [(one["change"], one["by"]) for one in told["changes"]]


def test_the_history_tells_who_made_administrative_changes(
    command: Command, group: str, bootstrap_servers: str
) -> None:
    """Resets, undos and deletions of every tool; commits of consumers are not signed."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "client.id": "reader"})
    consumer.commit(offsets=[Position("flights", 0, 3)], asynchronous=False)
    consumer.close()
    assert made_by(command, group, "--topic", "flights:0")[0] == ("committed", None)

    assert command("--undo", "--group", group, "--all-topics", "--execute").exit_code == 0
    mine = f"headgate:{caller()}/127.0.0.1"
    assert made_by(command, group, "--topic", "flights:0")[:2] == [("committed", mine), ("committed", None)]
    reset = ("--reset-offsets", "--group", group, "--topic", "flights", "--to-latest", "--execute")
    assert command(*reset).exit_code == 0
    assert made_by(command, group)[:2] == [("committed", mine)] * 2

    java = AdminClient({"bootstrap.servers": bootstrap_servers, "client.id": "adminclient-7"})
    for offset in (1, 2, 1, 2):  # the same request again and again is signed each time
        wanted = ConsumerGroupTopicPartitions(group, [Position("flights", 0, offset)])
        java.alter_consumer_group_offsets([wanted])[group].result(20)
    by_java = ("committed", "adminclient-7/127.0.0.1")
    assert made_by(command, group, "--topic", "flights:0")[:4] == [by_java] * 4

    assert command("--delete-offsets", "--group", group, "--topic", "flights:1").exit_code == 0
    assert made_by(command, group)[0] == ("removed", mine)
    assert command("--delete", "--group", group).exit_code == 0
    assert made_by(command, group)[0] == ("removed", mine)
    heading, newest, *_ = command("--history", "--group", group).stdout.splitlines()
    assert (heading.split()[-1], newest.split()[-1]) == ("BY", mine)
    with Admin(bootstrap_servers) as admin:
        (known,) = admin.offset_history(group, [FIRST], limit=1).partitions
        author = known.changes[0].author
        assert author is not None
        assert author == (f"headgate:{caller()}", "/127.0.0.1")


def test_the_changes_of_a_group_are_listed_newest_first(command: Command, group: str) -> None:
    """As a table, as CSV and as JSON, which has the start of the history."""
    heading, *lines = rows(command("--history", "--group", group))
    assert heading[:5] == ["GROUP", "TIME", "TOPIC", "PARTITION", "CHANGE"]
    assert [[line[0], *line[2:]] for line in lines] == [
        [group, "flights", "1", "committed", "0", "-", "-", "headgate-admin/127.0.0.1"],
        [group, "flights", "0", "committed", "0", "-", "-", "headgate-admin/127.0.0.1"],
        [group, "flights", "0", "committed", "4", "2", "by", "hand", "headgate-admin/127.0.0.1"],
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


def test_offsets_as_of_a_time_are_shown(command: Command, group: str) -> None:
    """The offsets that were current then, with the time of their commit."""
    history = as_json(command("--history", "--group", group, "--output", "json"))
    first = history["groups"][0]["changes"][2]["time"]
    _, line = rows(command("--offsets-as-of", first, "--group", group))
    assert line == [group, "flights", "0", "4", "2", "by", "hand", first, "same"]
    now = as_json(command("--offsets-as-of", moment(time.time() + 1), "--group", group, "--output", "json"))
    assert [each["offset"] for each in now["offsets"]] == [0, 0]
    assert (
        as_json(command("--offsets-as-of", "2020-01-01", "--group", group, "--output", "json"))["offsets"]
        == []
    )


def create(bootstrap_servers: str, topic: str) -> None:
    """Create a topic of one partition."""
    with Admin(bootstrap_servers) as admin:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]
        )
        assert admin.cluster.any_node().request(request).topics[0].error_code == 0


def delete(bootstrap_servers: str, topic: str) -> None:
    """Delete a topic, with its offsets."""
    with Admin(bootstrap_servers) as admin:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
        assert admin.cluster.any_node().request(request, 3).responses[0].error_code == 0


def test_a_recreated_topic_separates_the_history_and_prevents_an_undo(
    command: Command, bootstrap_servers: str
) -> None:
    """While it is deleted and when there is another one: a row separates the changes; nothing is restored."""
    create(bootstrap_servers, "gates")
    partition = TopicPartition(TopicName("gates"), 0)
    with Admin(bootstrap_servers) as admin:
        admin.alter_offsets("boarding", {partition: 7})
        admin.alter_offsets("boarding", {FIRST: 1})
    then = moment(time.time() + 0.001)
    time.sleep(0.003)
    delete(bootstrap_servers, "gates")
    of_boarding, undo = ("--group", "boarding"), ("--undo", "--group", "boarding", "--all-topics")
    restore = ("--reset-offsets", "--to-offsets-as-of", then, "--all-topics", *of_boarding)
    for asked in (undo, (*undo, "--execute"), restore, (*restore, "--execute")):
        refused = command(*asked)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "group boarding: topic gates was deleted: offsets from before" in refused.stderr
        assert "to exclude this topic, name the others with --topic" in refused.stderr
    assert "topic gates is deleted" in command("--history", *of_boarding).stderr
    was = command("--offsets-as-of", then, *of_boarding)
    assert [[line[1], line[3], line[-1]] for line in rows(was)[1:]] == [
        ["flights", "1", "same"],
        ["gates", "7", "deleted"],
    ]
    assert "its offsets in gates belong to a topic that was deleted since" in was.stderr

    create(bootstrap_servers, "gates")
    for asked in (undo, (*undo, "--execute"), restore, (*restore, "--execute")):
        refused = command(*asked)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "topic gates was deleted, and created again at 20" in refused.stderr
    with Admin(bootstrap_servers) as admin:
        assert admin.committed_offsets("boarding") == {FIRST: CommittedOffset(1)}
        admin.alter_offsets("boarding", {partition: 2})
    listed = command("--history", *of_boarding, "--topic", "gates")
    assert [line[3:6] for line in rows(listed)[1:]] == [
        ["0", "committed", "2"],
        ["-", "recreated", "-"],
        ["0", "removed", "-"],
        ["0", "committed", "7"],
    ]
    (told,) = as_json(command("--history", *of_boarding, "--topic", "gates", "--output", "json"))["groups"]
    assert [change["topic_now"] for change in told["changes"]] == ["same", "same", "recreated", "recreated"]
    assert [change["partition"] for change in told["changes"]] == [0, None, 0, 0]
    assert rows(command(*undo, "--execute"))[1:] == [["boarding", "gates", "0", "2", "-", "-"]]
    only_flights = ("--reset-offsets", "--to-offsets-as-of", then, "--topic", "flights", *of_boarding)
    assert "all offsets are already as they were then" in command(*only_flights).stderr


def test_an_undo_is_shown_first_and_executed_with_execute(command: Command, group: str) -> None:
    """The table is the same. A partition without an offset has none again. --redo repeats the reset."""
    expected = [[group, "flights", "0", "0", "4", "by", "hand"], [group, "flights", "1", "0", "-", "-"]]
    shown = command("--undo", "--group", group, "--all-topics")
    assert rows(shown)[1:] == expected
    assert "the last change was at 20" in shown.stderr
    assert "add --execute" in shown.stderr
    assert rows(command("--undo", "--group", group, "--topic", "flights", "--execute"))[1:] == expected
    described = rows(command("--describe", "--group", group))
    assert [line[2:4] for line in described[1:]] == [["0", "4"]]
    once_more = ("--undo", "--group", group, "--all-topics")
    assert "already undid the one of" in command(*once_more).stderr
    refused = command(*once_more, "--execute")
    assert refused.exit_code == 1
    assert "already undid the one of" in refused.stderr and "--redo" in refused.stderr
    assert rows(command("--describe", "--group", group)) == described
    again = as_json(command(*once_more, "--redo", "--execute", "--output", "json"))
    assert again["is_executed"] is True
    assert [each["new_offset"] for each in again["offsets"]] == [0, 0]


def test_an_offset_whose_records_were_removed_since_is_told(command: Command, bootstrap_servers: str) -> None:
    """A reset takes the start of the log; an undo restores the offset, and says what a consumer would do."""
    where = TopicPartition(TopicName("shortened"), 0)
    with Admin(bootstrap_servers) as admin:
        admin.create_topic("shortened")
        producer = Producer({"bootstrap.servers": bootstrap_servers})
        for _ in range(20):
            producer.produce("shortened", b"x")
        assert producer.flush(20) == 0
        admin.alter_offsets("late", {where: 3})
        time.sleep(0.01)
        then = moment(time.time())
        time.sleep(0.01)
        admin.alter_offsets("late", {where: 15})
        admin.delete_records({where: 10})
    of_late = ("--group", "late", "--all-topics")
    outside = "headgate: group late: shortened-0: 3 lies outside the log, which starts at 10"
    restored = command("--reset-offsets", "--to-offsets-as-of", then, *of_late)
    assert rows(restored)[1:] == [["late", "shortened", "0", "15", "10", "-"]]
    assert f"{outside}\n" in restored.stderr
    undone = command("--undo", *of_late)
    assert rows(undone)[1:] == [["late", "shortened", "0", "15", "3", "-"]]
    assert f"{outside}: a consumer begins where its auto.offset.reset says; --reset-offsets" in undone.stderr


def test_a_reset_restores_the_offsets_as_of_a_time(command: Command, group: str) -> None:
    """It is shown, exported and executed. Then there is nothing left to restore."""
    history = as_json(command("--history", "--group", group, "--output", "json"))
    then: str = history["groups"][0]["changes"][2]["time"]
    asked = ("--reset-offsets", "--to-offsets-as-of", then, "--group", group, "--all-topics")
    assert [line[3:5] for line in rows(command(*asked))[1:]] == [["0", "4"], ["0", "-"]]
    exported = command(*asked, "--export")
    assert exported.stdout == "flights,0,4\n"
    assert "cannot say that an offset is removed; left out:" in exported.stderr
    assert command(*asked, "--execute").exit_code == 0
    assert "all offsets are already as they were then" in command(*asked, "--execute").stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--undo", "--group", "g"], "--topic or --all-topics is expected with --undo"),
        (["--undo", "--all-topics"], "--group or --all-groups is expected with --undo"),
        (["--history", "--group", "g", "--execute"], "--execute cannot be combined with --history"),
        (["--history", "--group", "g", "--since", "monday"], "--since monday: a date and time is expected"),
        (["--offsets-as-of", "soon", "--group", "g"], "--offsets-as-of soon: a date and time is expected"),
        (["--offsets-as-of", "1969-01-01", "--group", "g"], "a time from 1970 on is expected"),
        (["--history", "--group", "g", "--until", "1969-01-01"], "a time from 1970 on is expected"),
        (["--history", "--group", "g", "--since", "1969-01-01"], "a time from 1970 on is expected"),
        (
            ["--reset-offsets", "--to-offsets-as-of", "1969-01-01", "--group", "g", "--all-topics"],
            "a time from 1970 on is expected",
        ),
        (
            ["--history", "--group", "g", "--since", "2026-02-02", "--until", "2026-02-01"],
            "--since 2026-02-02: that is later than --until 2026-02-01",
        ),
    ],
)
def test_an_invalid_command_line_is_refused(command: Command, arguments: list[str], problem: str) -> None:
    """The error is one line. The exit code is 2, and standard output is empty."""
    refused = command(*arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert problem in refused.stderr


def test_the_error_for_a_mistyped_group_or_topic_suggests_a_name(command: Command, group: str) -> None:
    """An unknown group is an error; of a known one, restoring what it never had is."""
    when = ("2026-01-01",)
    actions = [
        (("--history",), 0),
        (("--history", "--since", *when), 0),
        (("--offsets-as-of", *when), 0),
        (("--undo",), 1),
        (("--undo", "--execute"), 1),
        (("--reset-offsets", "--to-offsets-as-of", *when), 1),
    ]
    for action, exit_code in actions:
        scope = () if action[0] in ("--history", "--offsets-as-of") else ("--all-topics",)
        answered = command(*action, *scope, "--group", group + "s")
        assert (answered.exit_code, answered.stdout) == (1, ""), action
        assert f"there is no group called {group}s; did you mean {group}?" in answered.stderr
        answered = command(*action, "--topic", "fligths:1", "--group", group)
        assert (answered.exit_code, answered.stdout) == (exit_code, ""), action
        assert (
            answered.stderr
            == command(*action, "--topic", "fligths:1", "--group", group, "--output", "json").stderr
        )
        nothing = f"group {group} has no known offsets in fligths:1; did you mean flights?"
        assert nothing in answered.stderr


def test_a_time_without_known_changes_is_reported(command: Command, group: str) -> None:
    """Before the first commit, in the future, and between two changes."""
    for time_before in ("2026-01-01", "1970-01-01", "1971-02-03"):
        before = command("--offsets-as-of", time_before, "--group", group)
        assert (before.exit_code, before.stdout) == (0, "")
        assert f"group {group} had no offsets then" in before.stderr
    later = moment(time.time() + 3600)
    for action in (
        ("--offsets-as-of", later),
        ("--reset-offsets", "--all-topics", "--to-offsets-as-of", later),
    ):
        assert "is in the future: the present offsets are used" in command(*action, "--group", group).stderr
    for span in (("--since", later), ("--until", "2026-01-01"), ("--until", "1971-02-03")):
        nothing = command("--history", "--group", group, *span)
        assert (nothing.exit_code, nothing.stdout) == (0, "")
        assert f"group {group}: there is no known change of its offsets in that time" in nothing.stderr


def test_it_is_reported_if_there_are_no_groups() -> None:
    """An empty table for all groups of a new server would look like a failure."""
    with run({"headgate.durability": "page-cache"}) as broker:
        arguments = ["consumer-groups", "--bootstrap-server", broker.bootstrap_servers, "--all-groups"]
        for action in (["--history"], ["--offsets-as-of", "2026-01-01"], ["--undo", "--all-topics"]):
            result = CliRunner().invoke(app, [*arguments, *action])
            assert (result.exit_code, result.stdout) == (0, "")
            assert "there are no groups" in result.stderr
            assert "no groups that were deleted: name them with --group" in result.stderr

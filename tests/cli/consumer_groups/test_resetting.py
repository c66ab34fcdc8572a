"""`headgate consumer-groups --reset-offsets`: shown, executed with --execute, refused for active groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.cli.support import Command, committed, hide_extensions, rows
from typer.testing import CliRunner

from headgate.admin import Admin, TopicPartition, VersionNotSupported
from headgate.broker import run
from headgate.cli import app
from headgate.cli.consumer_groups.arguments import read_offsets
from headgate.client.connection import Connection
from headgate.domain.ids import TopicName

pytestmark = pytest.mark.timeout(60)

LATER_THAN_ALL = (
    "headgate: group {}: no record of 3 partitions, flights-0 among them, is as new as the time asked for: "
    "the end of the log is taken\n"
)


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (["--to-earliest"], {0: 0, 1: 0, 2: 0}),
        (["--to-latest"], {0: 10, 1: 10, 2: 10}),
        (["--to-current"], {0: 4, 1: 9, 2: 10}),
        (["--to-offset", "3"], {0: 3, 1: 3, 2: 3}),
        (["--to-offset", "0"], {0: 0, 1: 0, 2: 0}),
        (["--to-datetime", "2023-11-14T23:13:22.500+01:00"], {0: 3, 1: 3, 2: 3}),
        (["--to-datetime", "2023-11-14T22:13:22"], {0: 2, 1: 2, 2: 2}),
        (["--to-datetime", "1970-01-21"], {0: 0, 1: 0, 2: 0}),
        (["--by-duration", "PT1H"], {0: 10, 1: 10, 2: 10}),
    ],
)
def test_a_reset_is_shown_and_executed_with_execute(
    command: Command, group: str, target: list[str], offsets: dict[int, int]
) -> None:
    """Without --execute nothing changes. With it, the committed offsets are those shown."""
    words = ["--reset-offsets", "--group", group, "--topic", "flights", *target]
    shown = command(*words)
    heading, *lines = rows(shown)
    assert heading == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"]
    assert {int(line[2]): int(line[4]) for line in lines} == offsets
    assert "nothing was changed" in shown.stderr
    assert committed(command, group) == {0: 4, 1: 9}
    done = command(*words, "--execute")
    remark = LATER_THAN_ALL.format(group) if target == ["--by-duration", "PT1H"] else ""
    assert (rows(done)[1:], done.stderr) == (lines, remark)
    assert committed(command, group) == offsets


def test_an_unknown_group_is_created_only_with_create(command: Command, group: str) -> None:
    """A mistyped name is refused with the most similar one, and no group is created."""
    words = ("--reset-offsets", "--group", f"{group}x", "--topic", "flights", "--to-offset", "2")
    for asked in (words, (*words, "--execute")):
        refused = command(*asked)
        assert refused.exit_code == 1
        assert f"did you mean {group}? (--create creates it)" in refused.stderr
    assert f"{group}x" not in command("--list").stdout
    assert command(*words, "--create", "--execute").exit_code == 0
    assert committed(command, f"{group}x") == {0: 2, 1: 2, 2: 2}


def test_a_time_after_the_last_record_is_told(command: Command, group: str) -> None:
    """With a wrong time zone everything unread would be skipped without a word."""
    words = ("--reset-offsets", "--group", group, "--topic", "flights", "--dry-run", "--to-datetime")
    planned = command(*words, "2100-01-01T00:00:00Z")
    assert planned.exit_code == 0
    assert LATER_THAN_ALL.format(group) in planned.stderr
    assert "no record" not in command(*words, "1970-01-02T00:00:00Z").stderr


def test_a_shift_stays_inside_the_log(command: Command, group: str) -> None:
    """A message reports the moved offset. Only the named partitions change."""
    words = ("--reset-offsets", "--group", group, "--execute", "--shift-by")
    done = command(*words, "3", "--topic", "flights:1")
    assert rows(done)[1] == [group, "flights", "1", "9", "10"]
    assert f"group {group}: flights-1: 12 lies outside the log, which ends at 10" in done.stderr
    command(*words, "-7", "--all-topics")
    assert committed(command, group) == {0: 0, 1: 3}
    refused = command(*words, "1", "--topic", "flights:0,2")
    assert refused.exit_code == 1
    assert "there is no committed offset to shift in flights-2" in refused.stderr


def test_an_export_can_be_imported(command: Command, group: str, tmp_path: Path) -> None:
    """For one group without its name, for several groups with their names, like Kafka's tool."""
    saved = tmp_path / "saved.csv"
    words = ("--reset-offsets", "--group", group)
    saved.write_text(command(*words, "--all-topics", "--to-current", "--export").stdout)
    assert saved.read_text() == "flights,0,4\nflights,1,9\n"
    command(*words, "--all-topics", "--to-earliest", "--execute")
    assert committed(command, group) == {0: 0, 1: 0}
    assert command(*words, "--from-file", saved, "--execute").exit_code == 0
    assert committed(command, group) == {0: 4, 1: 9}
    saved.write_text(f"{group},flights,0,1\nother,flights,1,2\n")
    both = (*words, "--group", "other")
    exported = command(*both, "--from-file", saved, "--create", "--execute", "--export")
    assert exported.stdout == saved.read_text()
    assert committed(command, "other") == {1: 2}


def test_a_file_for_all_groups_makes_no_new_group(command: Command, group: str, tmp_path: Path) -> None:
    """A name that is mistyped, or of another cluster, is told; the groups that exist are reset."""
    saved = tmp_path / "saved.csv"
    saved.write_text(f"{group},flights,0,1\n{group}x,flights,1,2\n")
    words = ("--reset-offsets", "--all-groups", "--from-file", saved, "--execute")
    done = command(*words)
    assert (done.exit_code, f"there is no group called {group}x; did you mean {group}?" in done.stderr) == (
        1,
        True,
    )
    assert committed(command, group)[0] == 1
    assert f"{group}x" not in command("--list").stdout.split()
    assert command(*words, "--create").exit_code == 0
    assert committed(command, f"{group}x") == {1: 2}


def test_a_group_of_a_file_keeps_the_spaces_in_its_name(tmp_path: Path) -> None:
    """Otherwise the export of one group would set the offsets of another."""
    path = tmp_path / "saved.csv"
    path.write_text('"\rone",flights,0,4\n two , flights , 1 , 5\n', newline="")
    places = [TopicPartition(TopicName("flights"), partition) for partition in (0, 1)]
    assert read_offsets(path, []) == {"\rone": {places[0]: 4}, " two ": {places[1]: 5}}


def test_a_file_of_a_spreadsheet_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """It belongs to no name."""
    path = tmp_path / "saved.csv"
    path.write_text("\ufeffone,flights,0,4\n", encoding="utf-8")
    assert read_offsets(path, []) == {"one": {TopicPartition(TopicName("flights"), 0): 4}}


@pytest.mark.parametrize(
    "lines",
    ["topic,partition,offset\nflights,0,4\n", "Group, Topic, Partition, Offset\r\none,flights,0,4\r\n"],
    ids=["of one group", "of several groups"],
)
def test_a_file_may_begin_with_a_heading(tmp_path: Path, lines: str) -> None:
    """A spreadsheet writes one; it is the format as the documents write it."""
    path = tmp_path / "saved.csv"
    path.write_text(lines, newline="")
    assert read_offsets(path, ["one"]) == {"one": {TopicPartition(TopicName("flights"), 0): 4}}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("flights,0,1\ntopic,partition,offset\n", "line 2"),
        ("topic,partition,offset\n", "the file has no offsets"),
        ("flights,0\n", "line 1: topic,partition,offset or group,topic,partition,offset is expected"),
        ("flights,0,-1\n", "line 1"),
        ("flights,0,1\nother,flights,0,1\n", "line 2: group other is not among those of --group"),
        ("flights,0,1\nflights,0,2\n", "line 2: flights-0 of group "),
        ("", "the file has no offsets"),
        (f"flights,0,{1 << 63}\n", "line 1: an offset below 2**63 is expected"),
        (f"flights,0,{'9' * 5000}\n", "line 1: an offset below 2**63 is expected"),
        (f"flights,{'9' * 5000},0\n", "line 1: the number of a partition is expected"),
    ],
    ids=[
        "a heading further down",
        "a heading only",
        "too few fields",
        "negative",
        "another group",
        "twice",
        "empty",
        "too large",
        "many digits",
        "many digits of a partition",
    ],
)
def test_an_invalid_file_is_refused_with_its_line(
    command: Command, group: str, tmp_path: Path, lines: str, says: str
) -> None:
    """Nothing is changed."""
    path = tmp_path / "offsets.csv"
    path.write_text(lines)
    refused = command("--reset-offsets", "--group", group, "--from-file", path, "--execute")
    assert (refused.exit_code, says in refused.stderr) == (2, True), refused.stderr
    assert committed(command, group) == {0: 4, 1: 9}


def test_an_active_group_is_not_reset(command: Command, group: str, member: Consumer) -> None:
    """The error has the reason and advice."""
    refused = command("--reset-offsets", "--group", group, "--topic", "flights", "--to-latest", "--execute")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"group {group} is active: state Stable, 1 member; stop its members first" in refused.stderr


def test_a_reset_makes_the_shown_changes_or_none(
    command: Command, group: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another client commits between plan and execution, the error has its offset; nothing is changed."""
    plan_resets = Admin.plan_resets

    def overtaken(admin: Admin, *arguments: Any) -> Any:
        planned: Any = plan_resets(admin, *arguments)
        with Admin(bootstrap_servers) as somebody:
            somebody.alter_offsets(group, {planned[group][1].partition: 8})
        return planned

    monkeypatch.setattr(Admin, "plan_resets", overtaken)
    refused = command("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"group {group}: flights-1 is at 8, not at 9; another client changed it" in refused.stderr
    assert committed(command, group) == {0: 4, 1: 8}


def test_unknown_partitions_are_refused_with_the_existing_ones(command: Command, group: str) -> None:
    """For a misspelt topic the most similar name is suggested."""
    words = ("--reset-offsets", "--group", group, "--to-latest", "--topic")
    assert "flights has the partitions 0 to 2" in command(*words, "flights:3").stderr
    refused = command(*words, "fligths")
    assert (refused.exit_code, "did you mean flights?" in refused.stderr) == (1, True)


def test_a_reset_of_many_groups_asks_for_all_at_once(
    command: Command, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run is few requests for any number of groups; execution adds the commit of each."""
    groups = [f"many-{number}" for number in range(40)]
    with Admin(bootstrap_servers) as admin:
        for group in groups:
            admin.alter_offsets(group, {TopicPartition(TopicName("flights"), 0): 1})
    sent: list[str] = []
    exchange = Connection._exchange

    def counted(connection: Connection, messages: Any, *more: Any, **others: Any) -> Any:
        sent.extend(type(message).__name__ for message in messages)
        return exchange(connection, messages, *more, **others)

    monkeypatch.setattr(Connection, "_exchange", counted)
    chosen = [word for group in groups for word in ("--group", group)]
    words = ("--reset-offsets", *chosen, "--topic", "flights:0", "--to-offset", "2")
    assert [line[0] for line in rows(command(*words))[1:]] == groups
    assert len(sent) < 20
    sent.clear()
    assert len(rows(command(*words, "--execute"))) == 1 + len(groups)
    assert len([name for name in sent if name != "OffsetCommitRequest"]) < 20
    assert sent.count("OffsetCommitRequest") == len(groups)


def test_a_command_that_fails_before_its_first_change_claims_none(
    monkeypatch: pytest.MonkeyPatch, command: Command, group: str
) -> None:
    """As `--undo` on Kafka, which keeps no history."""

    def refuse(*arguments: object) -> None:
        raise VersionNotSupported("it does not support DescribeOffsetHistory")

    monkeypatch.setattr(Admin, "plan_undo", refuse)
    refused = command("--undo", "--all-topics", "--group", group, "--execute")
    assert refused.exit_code == 1
    assert "DescribeOffsetHistory" in refused.stderr
    assert "only what is printed" not in refused.stderr


@pytest.mark.parametrize(
    "action",
    [
        ["--undo"],
        ["--undo", "--redo", "--execute"],
        ["--reset-offsets", "--to-offsets-as-of", "2023-11-14"],
        ["--rewind", "--to-earliest"],
    ],
    ids=["undo", "redo", "as-of", "rewind"],
)
def test_what_kafka_cannot_do_is_said_before_members_are_to_be_stopped(
    monkeypatch: pytest.MonkeyPatch, command: Command, group: str, member: Consumer, action: list[str]
) -> None:
    """Otherwise a team stops its consumers in vain."""
    hide_extensions(monkeypatch)
    refused = command(*action, "--group", group, "--all-topics")
    assert refused.exit_code == 1
    assert "which only Headgate has" in refused.stderr
    assert "is active" not in refused.stderr


@pytest.mark.parametrize(
    ("executing", "words"),
    [
        ("execute_reset", ["--reset-offsets", "--all-topics", "--to-latest"]),
        ("execute_restore", ["--undo", "--all-topics", "--redo"]),
    ],
    ids=["reset", "undo"],
)
def test_a_server_that_is_lost_on_the_way_hides_no_change(
    monkeypatch: pytest.MonkeyPatch, executing: str, words: list[str]
) -> None:
    """The groups that were changed before are printed."""
    with run({"offsets.topic.num.partitions": "1"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("flights", 1)
            for group_id in ("one", "two", "three"):
                for offset in (7, 8):
                    admin.alter_offsets(group_id, {TopicPartition(TopicName("flights"), 0): offset})
        execute = getattr(Admin, executing)

        def then_stop(admin: Admin, *arguments: Any) -> None:
            execute(admin, *arguments)
            broker.stop()

        monkeypatch.setattr(Admin, executing, then_stop)
        address = ("--bootstrap-server", broker.bootstrap_servers, "--timeout", "2000")
        groups = ("--group", "one", "--group", "two", "--group", "three")
        done = CliRunner().invoke(app, ["consumer-groups", *address, *words, *groups, "--execute"])
        assert done.exit_code == 1, done.stderr
        assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["one"]
        assert "before its last group: only what is printed was changed" in done.stderr
        if executing == "execute_reset":
            # Mostly the end of the connection is seen before anything is sent for group two.
            assert "no connection to" in done.stderr or "group two: connection" in done.stderr

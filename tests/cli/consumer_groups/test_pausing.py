"""Partitions of a running group are paused, listed, rewound and resumed from the shell."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.cli.support import Command, committed, rows
from tests.consumers import reading

from headgate.admin import Admin
from headgate.cli.consumer_groups.pausing import progress
from headgate.cli.printing import say

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def runner(bootstrap_servers: str, group: str) -> Iterator[Consumer]:
    """A member of the new protocol that polls in a thread, beside the test."""
    settings = {"group.protocol": "consumer", "client.id": "reader"}
    with reading(bootstrap_servers, group, "flights", settings) as consumer, polling(consumer):
        yield consumer


@contextmanager
def polling(consumer: Consumer) -> Iterator[None]:
    """It hears of what it is to revoke, and revokes it."""
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            message = consumer.poll(0.05)
            assert message is None or message.error() is None

    thread = threading.Thread(target=poll, name="Thread-poll")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_partitions_are_paused_shown_and_resumed(command: Command, group: str, runner: Consumer) -> None:
    """With who did it and why; the member goes on with the third one."""
    paused = rows(command("--pause", "--group", group, "--topic", "flights:0,1", "--reason", "poison"))
    assert [row[1:4] for row in paused] == [
        ["TOPIC", "PARTITION", "STATE"],
        ["flights", "0", "paused"],
        ["flights", "1", "paused"],
    ]
    assert all(row[-1] == "poison" for row in paused[1:])
    assert rows(command("--paused-partitions", "--group", group)) == paused
    described = command("--describe", "--group", group)
    assert "flights:0,1 paused since 2" in described.stderr
    assert "(poison)" in described.stderr
    table = rows(described)
    assert table[0][-1] == "PAUSED"
    assert [row[-1] for row in table[1:]] == ["paused", "paused", "-"]
    assert [row[2] for row in table[1:] if row[-2] == "reader"] == ["2"]

    resumed = rows(command("--resume", "--group", group, "--all-topics"))
    assert [row[2:] for row in resumed[1:]] == [["0", "resumed"], ["1", "resumed"]]
    nothing = command("--paused-partitions", "--group", group)
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no partition is paused" in nothing.stderr
    assert rows(command("--describe", "--group", group))[0][-1] == "CLIENT-ID", "as Kafka's tool has it"


def test_a_rewind_shows_first_then_does_it_and_says_how_to_take_it_back(
    command: Command, group: str, runner: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that it prints does take it back, but for a partition that had no offset: that is told."""
    monkeypatch.chdir(tmp_path)
    words = ("--rewind", "--group", group, "--topic", "flights", "--to-offset", "2")
    shown = command(*words)
    assert [row[2:] for row in rows(shown)[1:]] == [["0", "4", "2"], ["1", "9", "2"], ["2", "-", "2"]]
    assert "nothing was changed; add --execute to make the changes" in shown.stderr
    assert committed(command, group) == {0: 4, 1: 9, 2: None}

    done = command(*words, "--execute")
    assert [row[2:4] for row in rows(done)[1:]] == [["0", "4"], ["1", "9"], ["2", "-"]]
    assert committed(command, group) == {0: 2, 1: 2, 2: 2}
    assert "no offset before: flights-2; that command leaves the new one there" in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "to take it back: " in line)
    taking_back = shlex.split(line.partition("to take it back: ")[2])
    assert taking_back[:2] == ["headgate", "consumer-groups"]
    assert command(*taking_back[2:]).exit_code == 0
    assert committed(command, group) == {0: 4, 1: 9, 2: 2}


def test_one_partition_is_taken_back_without_a_file(
    command: Command, group: str, runner: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the offset that it had; JSON has the rows alone."""
    monkeypatch.chdir(tmp_path)
    words = ("--rewind", "--group", group, "--topic", "flights:1", "--to-datetime", "2023-11-14T22:13:25Z")
    done = command(*words, "--execute", "--output", "json")
    (row,) = json.loads(done.stdout)["partitions"]
    assert (row["previous_offset"], row["new_offset"], row["state"]) == (9, 5, "resumed")
    assert "--topic flights:1 --to-offset 9 --execute" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_reset_of_a_running_group_names_the_command_that_helps(
    command: Command, group: str, runner: Consumer
) -> None:
    """Of paused partitions it is done."""
    words = ("--reset-offsets", "--group", group, "--topic", "flights:0", "--to-offset", "1", "--execute")
    refused = command(*words)
    assert refused.exit_code == 1
    assert "not paused: flights-0" in refused.stderr
    assert "headgate consumer-groups --rewind" in refused.stderr
    command("--pause", "--group", group, "--topic", "flights:0")
    assert command(*words).exit_code == 0
    assert committed(command, group)[0] == 1
    command("--resume", "--group", group, "--all-topics")


def test_a_member_that_does_not_answer_is_named(command: Command, group: str, bootstrap_servers: str) -> None:
    """The rewind gives up, puts everything back and says so; a pause goes on waiting without the command."""
    settings = {"group.protocol": "consumer", "client.id": "sleeper"}
    with reading(bootstrap_servers, group, "flights", settings):
        words = ("--group", group, "--topic", "flights:0", "--release-timeout", "1")
        refused = command("--rewind", *words, "--to-offset", "1", "--execute")
        assert refused.exit_code == 1
        assert "not released after 1 s: flights-0" in refused.stderr
        assert "the partitions are resumed, and no offset is changed" in refused.stderr
        waiting = command("--pause", *words)
        assert waiting.exit_code == 1
        assert "pausing" in waiting.stdout
        assert "--paused-partitions shows the owner" in waiting.stderr
        command("--resume", "--group", group, "--topic", "flights:0")


def test_a_rewind_that_is_terminated_resumes_its_partitions(command: Command, bootstrap_servers: str) -> None:
    """By a signal of a supervisor or a terminal that closes as by Ctrl-C; the exit code says it."""
    group, settings = "terminated", {"group.protocol": "consumer", "client.id": "sleeper"}
    words = ("--group", group, "--topic", "flights:0")
    with reading(bootstrap_servers, group, "flights", settings):
        program = (sys.executable, "-m", "headgate", "consumer-groups")
        server = ("--bootstrap-server", bootstrap_servers)
        rewind = subprocess.Popen(
            [*program, *server, "--rewind", *words, "--to-offset", "1", "--execute"],
            stderr=subprocess.PIPE,
            text=True,
        )
        while "pausing" not in command("--paused-partitions", "--group", group).stdout:
            assert rewind.poll() is None
        rewind.terminate()
        _, said = rewind.communicate(timeout=30)
        assert rewind.returncode == 130
        assert f"group {group}: interrupted; the partitions are resumed, and no offset is changed" in said
        assert "no partition is paused" in command("--paused-partitions", "--group", group).stderr
        nothing = command("--pause", "--group", group, "--all-topics")
        assert nothing.exit_code == 1
        assert "has no committed offsets: name the topics with --topic" in nothing.stderr


def test_an_interrupted_pause_says_that_it_remains(
    command: Command, group: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wait is over; the partitions are still paused."""

    def interrupt(admin: object, *arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Admin, "wait_until_paused", interrupt)
    settings = {"group.protocol": "consumer", "client.id": "sleeper"}
    with reading(bootstrap_servers, group, "flights", settings):
        words = ("--group", group, "--topic", "flights:0")
        interrupted = command("--pause", *words)
        assert interrupted.exit_code == 130
        assert "may be paused: --resume resumes them" in interrupted.stderr
        assert "flights 0" in command("--resume", *words).stdout


def test_names_of_groups_are_no_markup_and_reasons_do_not_change_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Clients choose them."""
    with progress("group [/x]: \x1b[2J") as show:
        show("group [red]: [/y]")
    say("paused since ever (\x1b]0;title\x07)")
    assert capsys.readouterr().err.endswith("headgate: paused since ever (\\x1b]0;title\\x07)\n")


def test_groups_that_cannot_be_paused_say_why(command: Command, group: str, member: Consumer) -> None:
    """A classic group, and one that is not there."""
    refused = command("--pause", "--group", group, "--topic", "flights:0")
    assert refused.exit_code == 1
    assert "group.protocol=consumer" in refused.stderr
    missing = command("--pause", "--group", group + "x", "--topic", "flights:0")
    assert missing.exit_code == 1
    assert f"did you mean {group}?" in missing.stderr
    unknown = command("--pause", "--group", group, "--topic", "flights:7")
    assert "flights has the partitions 0 to 2" in unknown.stderr
    like_a_rewind = command(
        "--pause", "--group", group, "--topic", "flights:0", "--reason", "rewind: by hand"
    )
    assert (like_a_rewind.exit_code, "word it otherwise" in like_a_rewind.stderr) == (2, True)


def test_what_does_not_go_with_a_pause_is_refused(command: Command) -> None:
    """Before anything is asked of a server."""
    for words, says in (
        ("--pause --group g", "--topic or --all-topics is expected with --pause"),
        ("--pause --all-groups --topic t", "--group is expected with --pause"),
        ("--pause --group g --topic t --no-wait --release-timeout 3", "one of them is expected"),
        ("--resume --group g --topic t --reason why", "--reason cannot be combined with --resume"),
        ("--rewind --group g --topic t", "--to-earliest, --to-latest"),
        ("--rewind --group g --to-latest", "is expected with --rewind"),
    ):
        refused = command(*words.split())
        assert (refused.exit_code, refused.stdout) == (2, ""), words
        assert says in refused.stderr, words

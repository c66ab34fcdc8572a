"""`headgate consumer-groups --delete-offsets` and `--delete`."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer
from tests.cli.support import Command, committed, rows

pytestmark = pytest.mark.timeout(60)


def test_offsets_are_deleted(command: Command, group: str) -> None:
    """Each partition has a line. A group that does not exist is an error."""
    assert rows(command("--delete-offsets", "--group", group, "--topic", "flights:0"))[1:] == [
        [group, "flights", "0", "deleted"]
    ]
    assert committed(command, group) == {1: 9}
    refused = command("--delete-offsets", "--group", "nobody", "--topic", "flights:0")
    assert (refused.exit_code, "there is no group called nobody" in refused.stderr) == (1, True)


def test_offsets_of_subscribed_topics_are_not_deleted(command: Command, group: str, member: Consumer) -> None:
    """The table shows the error of each partition; the message has advice."""
    refused = command("--delete-offsets", "--group", group, "--topic", "flights:0")
    assert (refused.exit_code, "its members are subscribed to this topic" in refused.stderr) == (1, True)
    assert [group, "flights", "0", "GROUP_SUBSCRIBED_TO_TOPIC"] in map(str.split, refused.stdout.splitlines())


def test_groups_are_deleted_unless_they_are_active(command: Command, group: str, member: Consumer) -> None:
    """The error of a group is shown; the others are deleted."""
    made = ("--reset-offsets", "--group", "gone", "--topic", "flights", "--to-latest")
    command(*made, "--create", "--execute")
    deleted = command("--delete", "--group", "gone", "--group", group, "--output", "json")
    assert deleted.exit_code == 1
    assert json.loads(deleted.stdout) == {
        "groups": [{"group": "gone", "status": "deleted"}, {"group": group, "status": "NON_EMPTY_GROUP"}]
    }
    assert "stop its members first" in deleted.stderr
    assert "gone" not in command("--list").stdout.splitlines()

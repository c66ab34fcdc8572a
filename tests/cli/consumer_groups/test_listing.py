"""`headgate consumer-groups --list`."""

from __future__ import annotations

import json

import pytest
from tests.cli.support import Command, rows

pytestmark = pytest.mark.timeout(60)


def test_groups_are_listed_by_name_alone_unless_more_is_asked_for(command: Command, group: str) -> None:
    """Plain names for scripts; state and type, with or without a filter, as Kafka's tool has it."""
    assert group in command("--list").stdout.splitlines()
    assert [group, "Empty"] in rows(command("--list", "--state"))
    table = rows(command("--list", "--state", "empty,stable", "--type", "Classic"))
    assert table[0] == ["GROUP", "TYPE", "STATE"]
    assert [group, "Classic", "Empty"] in table
    everything = rows(command("--list", "--type"))
    assert [group, "Classic"] in everything
    assert rows(command("--list", "--type", "consumer")) == [
        row for row in everything if row[1] in ("TYPE", "Consumer")
    ]
    as_json = json.loads(command("--list", "--output", "json").stdout)
    assert {"group": group, "type": "Classic", "state": "Empty", "protocol_type": ""} in as_json["groups"]


def test_a_state_that_there_is_not_is_refused_with_those_there_are(command: Command) -> None:
    """A misspelt filter would otherwise look like an empty cluster."""
    refused = command("--list", "--state", "Stabel")
    assert refused.exit_code == 2
    assert "Empty, Stable, PreparingRebalance" in refused.stderr

"""`headgate consumer-groups --list`."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.cli.support import Command, rows

pytestmark = pytest.mark.timeout(60)


def test_groups_are_listed_by_name_and_optionally_with_state_and_type(command: Command, group: str) -> None:
    """Names only for scripts; state and type with or without a filter, like Kafka's tool."""
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


def test_control_characters_in_an_id_are_escaped(command: Command, bootstrap_servers: str) -> None:
    """Clients choose the ids: a listing has one line for each, and changes no terminal."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "red \x1b[31m\nnext"})
    consumer.commit(offsets=[TopicPartition("flights", 0, 1)], asynchronous=False)
    consumer.close()
    lines = command("--list").stdout.splitlines()
    assert "red \\x1b[31m\\nnext" in lines
    assert "next" not in lines


def test_an_unknown_state_is_refused_with_the_known_ones(command: Command) -> None:
    """A misspelt filter would look like a cluster without groups."""
    refused = command("--list", "--state", "Stabel")
    assert refused.exit_code == 2
    assert "Empty, Stable, PreparingRebalance" in refused.stderr

"""`headgate topics`: names, descriptions, changes, and errors that name the culprit and the next step."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.cli.cluster.conftest import Headgate

pytestmark = pytest.mark.timeout(60)


def test_a_topic_is_created_described_altered_and_deleted(headgate: Headgate, name: str) -> None:
    """With the lines of Kafka's tool, and the same in JSON and CSV."""
    made = headgate(
        "topics", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1000"
    )
    assert (made.exit_code, made.stdout, made.stderr) == (0, f"Created topic {name}.\n", "")
    assert name in headgate("topics", "--list").stdout.splitlines()
    heading, *partitions = headgate("topics", "--describe", "--topic", name).stdout.splitlines()
    assert heading.startswith(f"Topic: {name}\tTopicId: ")
    assert heading.endswith("\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=1000")
    assert partitions[1].startswith(f"\tTopic: {name}\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: ")
    altered = headgate("topics", "--alter", "--topic", name, "--partitions", "3")
    assert (altered.exit_code, altered.stdout) == (0, "")
    described = json.loads(headgate("topics", "--describe", "--topic", name, "--output", "json").stdout)
    (topic,) = described["topics"]
    assert (topic["partition_count"], topic["configs"]) == (3, {"retention.ms": "1000"})
    assert [one["leader"] for one in topic["partitions"]] == [1, 1, 1]
    table = headgate("topics", "--describe", "--topic", name, "--output", "csv").stdout
    assert [row["replicas"] for row in csv.DictReader(io.StringIO(table))] == ["1", "1", "1"]
    deleted = headgate("topics", "--delete", "--topic", name, "--output", "json")
    assert json.loads(deleted.stdout) == {"deleted": [{"topic": name}]}
    assert name not in headgate("topics", "--list").stdout.splitlines()


def test_topics_are_chosen_by_patterns_and_lists(headgate: Headgate, name: str) -> None:
    """As in Kafka's tool, a pattern matches whole names, and commas separate several."""
    names = [f"{name}-{kind}" for kind in ("a", "b", "ab")]
    for one in names:
        assert headgate("topics", "--create", "--topic", one).exit_code == 0
    assert headgate("topics", "--list", "--topic", f"{name}-.").stdout.splitlines() == names[:2]
    both = headgate("topics", "--list", "--topic", f"{names[0]},{names[2]}").stdout.splitlines()
    assert both == sorted([names[0], names[2]])
    shown = headgate("topics", "--list", "--exclude-internal").stdout
    assert "__consumer_offsets" not in shown


def test_an_id_finds_its_topic(headgate: Headgate, name: str) -> None:
    """And an unknown id does not."""
    headgate("topics", "--create", "--topic", name)
    (topic,) = json.loads(headgate("topics", "--describe", "--topic", name, "--output", "json").stdout)[
        "topics"
    ]
    found = headgate("topics", "--describe", "--topic-id", topic["topic_id"])
    assert found.stdout.startswith(f"Topic: {name}\t")
    refused = headgate("topics", "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert refused.exit_code == 1
    assert "there is no topic with the id AAAAAAAAAAAAAAAAAAAAAQ" in refused.stderr


def test_only_partitions_in_a_state_are_shown(headgate: Headgate, name: str) -> None:
    """One replica is at the minimum, and none is below it."""
    headgate("topics", "--create", "--topic", name)
    described = ("topics", "--describe", "--topic", name)
    assert headgate(*described, "--at-min-isr-partitions").stdout.startswith(f"\tTopic: {name}\tPartition: 0")
    for state in ("unavailable", "under-replicated", "under-min-isr"):
        assert headgate(*described, f"--{state}-partitions").stdout == ""
    assert headgate(*described, "--topics-with-overrides").stdout == ""


def test_what_exists_already_is_an_error_unless_it_may(headgate: Headgate, name: str) -> None:
    """--if-not-exists and --if-exists, for programs that run twice."""
    assert headgate("topics", "--create", "--topic", name).exit_code == 0
    again = headgate("topics", "--create", "--topic", name)
    assert again.exit_code == 1
    assert f"topic {name}: TOPIC_ALREADY_EXISTS" in again.stderr
    assert headgate("topics", "--create", "--topic", name, "--if-not-exists").exit_code == 0
    headgate("topics", "--delete", "--topic", name)
    for action in (("--delete",), ("--describe",), ("--alter", "--partitions", "2")):
        missing = headgate("topics", *action, "--topic", name)
        assert missing.exit_code == 1
        assert f"there is no topic called {name}" in missing.stderr
        assert headgate("topics", *action, "--topic", name, "--if-exists").exit_code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--create --topic a/b", "topic a/b: INVALID_TOPIC_EXCEPTION"),
        ("--create --topic t1 --partitions 0", "INVALID_PARTITIONS"),
        ("--create --topic t2 --replication-factor 3", "INVALID_REPLICATION_FACTOR"),
        ("--create --topic t3 --config retention.ms=soon", "INVALID_CONFIG"),
        ("--create --topic t4 --config no.such.thing=1", "no.such.thing"),
        ("--create --topic t5 --replica-assignment 7", "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_a_refusal_names_the_topic_and_the_reason(headgate: Headgate, words: str, says: str) -> None:
    """In one line, with exit code 1."""
    refused = headgate("topics", *words.split())
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert says in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--topic t", "one of --list, --describe, --create, --alter, --delete is expected"),
        ("--list --create --topic t", "one of --list"),
        ("--create", "--topic is missing"),
        ("--alter --topic t", "--partitions is missing"),
        ("--alter --topic t --config a=1", "--config is for --create: `headgate configs --alter`"),
        ("--list --partitions 3", "--partitions cannot be combined with --list"),
        ("--list --partitions 0", "--partitions cannot be combined with --list"),
        ("--list --topic [", "no regular expression"),
        ("--create --topic t --config retention.ms", "--config retention.ms: NAME=VALUE"),
        ("--create --topic t --replica-assignment x", "node ids are expected"),
        ("--create --topic t --replica-assignment 1 --partitions 1", "replaces --partitions"),
        ("--describe --under-min-isr-partitions --at-min-isr-partitions", "one of them"),
        ("--list --output xml", "table, json or csv"),
        ("--list --bootstrap-server nowhere", "not an address of the form host:port"),
        ("--list --command-config /no/such.file", "--command-config /no/such.file: No such file"),
    ],
)
def test_an_invalid_command_line_is_refused(headgate: Headgate, words: str, says: str) -> None:
    """The exit code is 2, and nothing was printed but the message."""
    refused = headgate("topics", *words.split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert says in refused.stderr

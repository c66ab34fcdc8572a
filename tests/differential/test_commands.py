"""The commands print of Apache Kafka what Kafka's own tools print, and of Headgate the same lines.

Each of Kafka's tools runs once for each cluster: it starts a JVM.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from bench.kafka.broker import java_command
from tests.differential.conftest import Run
from tests.differential.script import Side
from typer.testing import CliRunner

from headgate.cli import app

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "produce": "org.apache.kafka.tools.ConsoleProducer",
    "consume": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
TIMEOUT_S = 60


def servers(side: Side) -> str:
    """Return `host:port`."""
    return f"{side.host}:{side.port}"


def theirs(side: Side, tool: str, *words: str, stdin: str | None = None) -> list[str]:
    """Return the lines that Kafka's tool prints."""
    command = java_command(TOOLS[tool], "--bootstrap-server", servers(side), *words)
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return [line.rstrip() for line in done.stdout.splitlines()]


def ours(side: Side, tool: str, *words: str, stdin: str | None = None) -> list[str]:
    """Return the lines that the command prints."""
    done = CliRunner().invoke(app, [tool, "--bootstrap-server", servers(side), *words], input=stdin)
    assert done.exit_code == 0, done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]


def in_order(line: str) -> str:
    """Return a line with the settings in it sorted: Kafka's tool prints them in any order."""
    heading, found, configs = line.partition("Configs: ")
    return heading + found + ",".join(sorted(configs.split(",")))


def test_topics_are_described_alike(run: Run) -> None:
    """By Kafka's tool and by the command, of both clusters, with settings and several partitions."""
    name = f"commands-topics{run.tag}"
    for side in (run.kafka, run.headgate):
        made = ("--create", "--topic", name, "--partitions", "3", "--config", "cleanup.policy=compact")
        assert ours(side, "topics", *made) == [f"Created topic {name}."]
        for words in (("--describe", "--topic", name), ("--list", "--topic", name)):
            expected = [in_order(line) for line in theirs(side, "topics", *words)]
            assert [in_order(line) for line in ours(side, "topics", *words)] == expected
            assert len(expected) == (4 if words[0] == "--describe" else 1)
        assert ours(side, "topics", "--delete", "--topic", name) == []


def test_a_topic_without_a_cleanup_policy_is_described_alike(run: Run) -> None:
    """Nothing is removed from it then. It is created so, or its policy is taken away."""
    created, changed = f"commands-keeps{run.tag}", f"commands-kept{run.tag}"
    both = (run.kafka, run.headgate)
    change = ("--alter", "--topic", changed, "--add-config", "cleanup.policy=")
    for side in both:
        ours(side, "topics", "--create", "--topic", created, "--config", "cleanup.policy=")
        ours(side, "topics", "--create", "--topic", changed)
        assert ours(side, "configs", *change) == theirs(side, "configs", *change)
    for name in (created, changed):
        lines = [ours(side, "configs", "--describe", "--topic", name) for side in both]
        assert [one for one in lines[0] if "cleanup" in one] == [one for one in lines[1] if "cleanup" in one]
        assert any("cleanup.policy= " in one for one in lines[0]), lines


def test_configs_are_described_alike(run: Run) -> None:
    """Those that a topic has itself, with their synonyms, and what a change says."""
    name = f"commands-configs{run.tag}"
    change = ("--alter", "--topic", name, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    for side in (run.kafka, run.headgate):
        ours(side, "topics", "--create", "--topic", name)
        assert ours(side, "configs", *change) == theirs(side, "configs", *change)
        shown = ("--describe", "--topic", name)
        expected = theirs(side, "configs", *shown)
        assert sorted(map(braces, ours(side, "configs", *shown))) == sorted(map(braces, expected))
        assert len(expected) == 3
    every = ("--describe", "--topic", name, "--all")
    assert {braces(line) for line in ours(run.kafka, "configs", *every)} == {
        braces(line) for line in theirs(run.kafka, "configs", *every)
    }


def braces(line: str) -> str:
    """Return a line without the space that Kafka's tool prints after the last synonym."""
    return re.sub(r"\s+}", "}", line)


def test_groups_are_listed_alike(run: Run) -> None:
    """Their ids, types and protocols."""
    name = f"commands-groups{run.tag}"
    for side in (run.kafka, run.headgate):
        ours(side, "topics", "--create", "--topic", name)
        reset = ("--reset-offsets", "--group", name, "--topic", name, "--to-latest", "--create", "--execute")
        ours(side, "consumer-groups", *reset)
        expected = {tuple(line.split()) for line in theirs(side, "groups", "--list")}
        found = {
            tuple(word for word in line.split() if word != "-") for line in ours(side, "groups", "--list")
        }
        assert found == expected
        assert (name, "Classic") in found


PROPERTIES = ("key", "headers", "partition", "offset", "timestamp")


def test_records_are_printed_alike(run: Run) -> None:
    """What either tool produces, both print in the same way."""
    name = f"commands-records{run.tag}"
    parsed = ("parse.key=true", "key.separator=|", "parse.headers=true", "null.marker=NULL")
    reading = [word for each in parsed for word in ("--reader-property", each)]
    text = "".join(f"a:{number},b:x\tkey-{number}|value {number}\n" for number in range(20))
    printed = [word for each in PROPERTIES for word in ("--formatter-property", f"print.{each}=true")]
    shown = ("--topic", name, "--from-beginning", *printed)
    for side in (run.kafka, run.headgate):
        ours(side, "topics", "--create", "--topic", name, "--partitions", "3")
        ours(side, "produce", "--topic", name, *reading, stdin=text)
        theirs(side, "produce", "--topic", name, *reading, stdin=text + "h:1\tnothing|NULL\n")
        expected = theirs(side, "consume", *shown, "--max-messages", "41")
        found = ours(side, "consume", *shown, "--to-end")
        assert sorted(found) == sorted(expected)
        assert len(found) == 41
        places = {(line.split("\t")[4], line.split("\t")[1]) for line in found}
        assert len(places) == 21, "a key is in two partitions"


def test_a_cluster_is_healthy_and_lag_is_told(run: Run) -> None:
    """Of Kafka as of Headgate."""
    name = f"commands-lag{run.tag}"
    for side in (run.kafka, run.headgate):
        ours(side, "produce", "--topic", name, stdin="x\n" * 5)
        reset = (
            "--reset-offsets",
            "--group",
            name,
            "--topic",
            name,
            "--to-earliest",
            "--create",
            "--execute",
        )
        ours(side, "consumer-groups", *reset)
        assert ours(side, "lag", "--group", name)[1].split() == [name, name, "1", "5", "5", "0"]
        assert [line.split()[1] for line in ours(side, "health")[1:]] == ["ok"] * 6


@pytest.mark.parametrize("words", [("--list",), ("--describe",)])
def test_a_plain_file_of_the_tools_is_right_for_the_commands(
    run: Run, words: tuple[str, ...], tmp_path: Path
) -> None:
    """--command-config takes a file of a Kafka client with properties that are about other things."""
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=PLAINTEXT\nrequest.timeout.ms=5000\nclient.id=me\n")
    assert ours(run.kafka, "topics", *words, "--command-config", str(config))

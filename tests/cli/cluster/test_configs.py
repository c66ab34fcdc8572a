"""`headgate configs`: settings of topics, brokers and groups, with where their values come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.cluster.conftest import Headgate

pytestmark = pytest.mark.timeout(60)


def test_settings_of_a_topic_are_changed_and_shown(headgate: Headgate, name: str) -> None:
    """By both ways to name it, with values that have commas, and back again."""
    headgate("topics", "--create", "--topic", name)
    added = ("--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    changed = headgate("configs", "--alter", "--topic", name, *added)
    assert (changed.exit_code, changed.stdout) == (0, f"Completed updating config for topic {name}.\n")
    shown = headgate("configs", "--describe", "--entity-type", "topics", "--entity-name", name)
    heading, *lines = shown.stdout.splitlines()
    assert heading == f"Dynamic configs for topic {name} are:"
    assert [line.split()[0] for line in lines] == ["cleanup.policy=compact,delete", "retention.ms=1000"]
    assert "sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000" in lines[1]
    back = headgate("configs", "--alter", "--topic", name, "--delete-config", "retention.ms,cleanup.policy")
    assert back.exit_code == 0
    left = headgate("configs", "--describe", "--topic", name, "--output", "json")
    assert json.loads(left.stdout) == {"configs": []}
    every = json.loads(headgate("configs", "--describe", "--topic", name, "--all", "--output", "json").stdout)
    assert {one["name"]: one["source"] for one in every["configs"]}["retention.ms"] == "DEFAULT_CONFIG"


def test_settings_of_groups_and_brokers_are_changed_and_shown(headgate: Headgate, name: str) -> None:
    """A group need not exist; brokers have defaults of all, too."""
    retention = ("--add-config", "offsets.retention.ms=5000")
    assert headgate("configs", "--alter", "--group", name, *retention).exit_code == 0
    shown = headgate("configs", "--describe", "--entity-type", "groups", "--output", "csv").stdout
    assert any(line.startswith(f"groups,{name},offsets.retention.ms,5000,") for line in shown.splitlines())
    defaults = ("--broker-defaults", "--add-config", "log.retention.ms=7000")
    changed = headgate("configs", "--alter", *defaults)
    assert changed.stdout == "Completed updating default config for brokers in the cluster.\n"
    try:
        text = headgate("configs", "--describe", "--entity-type", "brokers").stdout
        assert "Dynamic configs for broker 1 are:" in text
        assert "Default configs for brokers in the cluster are:\n  log.retention.ms=7000" in text
    finally:
        headgate("configs", "--alter", "--broker-defaults", "--delete-config", "log.retention.ms")


def test_settings_come_from_a_file(headgate: Headgate, name: str, tmp_path: Path) -> None:
    """In the format of properties."""
    headgate("topics", "--create", "--topic", name)
    file = tmp_path / "settings.properties"
    file.write_text("# of orders\nretention.ms = 1000\nsegment.bytes=1048576\n")
    assert headgate("configs", "--alter", "--topic", name, "--add-config-file", file).exit_code == 0
    shown = headgate("configs", "--describe", "--topic", name).stdout.splitlines()
    assert [line.split()[0] for line in shown[1:]] == ["retention.ms=1000", "segment.bytes=1048576"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("--describe", 2, "one resource is expected"),
        ("--topic t", 2, "--describe or --alter is expected"),
        ("--describe --topic t --group g", 2, "one resource is expected"),
        ("--describe --entity-type users", 2, "quotas and passwords are not supported; kafka-configs.sh"),
        ("--describe --entity-type thing", 2, "one of topics, brokers"),
        ("--describe --entity-name t", 2, "--entity-type is missing"),
        ("--alter --topic t", 2, "--add-config, --add-config-file or --delete-config is expected"),
        ("--alter --entity-type topics --add-config a=1", 2, "--entity-name is missing"),
        ("--alter --topic t --add-config =1", 2, "NAME=VALUE,NAME=[VALUE,VALUE] is expected"),
        ("--alter --topic t --add-config a=[1", 1, "t"),
        ("--alter --topic t --add-config a=1 --delete-config a", 2, "a: --add-config and --delete-config"),
        ("--describe --topic no-such-topic", 1, "topic no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"),
        ("--describe --broker 99", 1, "the brokers are 1"),
        ("--alter --group g --add-config offsets.retention.ms=soon", 1, "offsets.retention.ms"),
    ],
)
def test_a_mistake_is_named(headgate: Headgate, words: str, code: int, says: str) -> None:
    """Exit code 2 for the command line, and 1 for what the broker refuses."""
    refused = headgate("configs", *words.split())
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert says in refused.stderr

"""`headgate configs`: settings of topics, brokers and groups, with where their values come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.cluster.conftest import Headgate
from tests.client.conftest import StartNode, start_node
from tests.client.scripted import Answer, every_version
from typer.testing import CliRunner

from headgate.cli import app
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headgate.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from headgate.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

__all__ = ["start_node"]

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
    done = headgate("configs", "--alter", "--group", name, *retention)
    assert (done.exit_code, done.stdout) == (0, f"Completed updating config for group {name}.\n")
    assert f"there is no group called {name}: the settings hold for one that is created later" in done.stderr
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


def test_a_topic_that_takes_no_dead_letters_is_told(headgate: Headgate, name: str) -> None:
    """The broker accepts every name. Otherwise only its log would say that rejected records wait."""
    topic = f"dlq.{name}"[:80]
    chosen = ("--add-config", f"errors.deadletterqueue.topic.name={topic}")
    done = headgate("configs", "--alter", "--group", name, *chosen)
    assert (done.exit_code, done.stdout) == (0, f"Completed updating config for group {name}.\n")
    assert f"topic {topic} does not exist: rejected records wait until it does" in done.stderr
    headgate("topics", "--create", "--topic", topic)
    done = headgate("configs", "--alter", "--group", name, *chosen)
    assert f"topic {topic} takes no dead letters" in done.stderr
    advised = done.stderr.partition("`headgate ")[2].partition("`")[0]
    assert headgate(*advised.split()).exit_code == 0
    assert "dead letters" not in headgate("configs", "--alter", "--group", name, *chosen).stderr


def test_a_dead_letter_topic_without_the_prefix_is_told(headgate: Headgate, name: str) -> None:
    """Also before it exists: its creation would not help."""
    topic, chosen = name[:80], "errors.deadletterqueue.topic.name"
    for _ in range(2):
        done = headgate("configs", "--alter", "--group", name, "--add-config", f"{chosen}={topic}")
        told = (
            f"rejected records wait: the name {topic} does not begin with dlq., the brokers' {chosen}.prefix"
        )
        assert (done.exit_code, told in done.stderr) == (0, True), done.stderr
        assert "headgate topics --create" not in done.stderr
        headgate(
            "topics", "--create", "--topic", topic, "--config", "errors.deadletterqueue.group.enable=true"
        )


def test_a_name_that_several_settings_end_with_asks_for_all_of_them(headgate: Headgate, name: str) -> None:
    """The one for share groups has no effect in a consumer group."""
    done = headgate("configs", "--alter", "--group", name, "--add-config", "session.timeout.ms=60000")
    asked = "did you mean consumer.session.timeout.ms or share.session.timeout.ms?"
    assert (done.exit_code, asked in done.stderr) == (1, True), done.stderr


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
        (
            "--alter --group g --delete-config share.nonsense",
            2,
            "--delete-config: there is no setting called share.nonsense",
        ),
        (
            "--alter --group g --delete-config max.poll.interval.ms",
            2,
            "--delete-config: max.poll.interval.ms is a setting of the client, not of the server\n",
        ),
        ("--alter --broker-defaults --delete-config log.retention.mss", 2, "did you mean log.retention.ms?"),
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


SECRET = "geheim-4711"
SECRETS = ("ssl.key.password", "listener.name.a.plain.sasl.jaas.config", "ssl.keystore.key", "my.secret")


@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_secrets_are_never_printed(start_node: StartNode, output: str) -> None:
    """Whatever the broker sends: one that hides nothing, and one that repeats a value in its error."""
    refused = AlterConfigsResourceResponse(
        error_code=40, error_message=f"Invalid value {SECRET} for it", resource_type=4, resource_name="1"
    )

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == 18:
            return every_version()
        if header.api_key == 3:
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host=node.host, port=node.port)]
            )
        if header.api_key == 44:
            return IncrementalAlterConfigsResponse(responses=[refused])
        marked = DescribeConfigsResourceResult(
            name="a.setting", value=SECRET, is_sensitive=True, config_source=2
        )
        synonyms = [DescribeConfigsSynonym(name=name, value=SECRET, source=2) for name in SECRETS]
        others = [
            DescribeConfigsResourceResult(name=name, value=SECRET, config_source=2, synonyms=synonyms)
            for name in SECRETS
        ]
        found = DescribeConfigsResult(resource_type=4, resource_name="1", configs=[marked, *others])
        return DescribeConfigsResponse(results=[found])

    node = start_node(script)
    server = ("--bootstrap-server", f"{node.host}:{node.port}", "--output", output)
    shown = CliRunner().invoke(app, ["configs", "--describe", "--broker", "1", *server])
    assert shown.exit_code == 0, shown.stderr
    assert SECRET not in shown.output
    if output == "table":
        assert "  ssl.key.password=null sensitive=true synonyms={DYNAMIC_BROKER_CONFIG:" in shown.stdout
    if output == "json":
        found = json.loads(shown.stdout)["configs"]
        assert {(one["value"], one["is_sensitive"]) for one in found} == {(None, True)}
    added = ",".join(f"{name}={SECRET}" for name in SECRETS)
    alter = ["configs", "--alter", "--broker", "1", *server, "--add-config"]
    changed = CliRunner().invoke(app, [*alter, added])
    assert (changed.exit_code, changed.stdout) == (1, "")
    assert "Invalid value [hidden] for it" in changed.stderr
    refused.error_code, refused.error_message = 0, None
    changed = CliRunner().invoke(app, [*alter, added])
    assert changed.exit_code == 0
    assert SECRET not in changed.output
    mistaken = CliRunner().invoke(app, [*alter, f"{added},["])
    assert mistaken.exit_code == 2
    assert SECRET not in mistaken.output


@pytest.mark.parametrize(
    "words", [("--broker", "1"), ("--broker-defaults",), ("--topic", "{topic}"), ("--group", "g")]
)
def test_the_broker_does_not_repeat_a_secret(headgate: Headgate, name: str, words: tuple[str, ...]) -> None:
    """It refuses settings that it does not have, by their names."""
    headgate("topics", "--create", "--topic", name)
    place = [word.format(topic=name) for word in words]
    refused = headgate("configs", "--alter", *place, "--add-config", f"ssl.key.password={SECRET}")
    assert refused.exit_code == 1
    assert "ssl.key.password" in refused.stderr
    assert SECRET not in refused.output

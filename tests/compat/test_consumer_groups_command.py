"""`headgate consumer-groups` beside Kafka's own tool, on the same broker: the same groups, the same resets.

And conditional commits among stock clients, who notice nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.compat.support.driver import Committed, Driver, Sent
from tests.compat.support.kafkas_tools import CONSUMER_GROUPS, needs_kafkas_tools, run_tool
from tests.consumers import reading
from typer.testing import CliRunner

from headgate.admin import Admin, OffsetsMoved, TopicPartition
from headgate.cli import app
from headgate.domain.ids import TopicName

Command = Callable[..., str]


@pytest.fixture
def ours(bootstrap: str) -> Command:
    """Runs our command; what it printed."""

    def run(*arguments: str | Path) -> str:
        done = CliRunner().invoke(
            app, ["consumer-groups", "--bootstrap-server", bootstrap, *map(str, arguments)]
        )
        assert done.exit_code == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def kafkas(bootstrap: str) -> Command:
    """Runs Kafka's tool; what it printed."""

    def run(*arguments: str | Path) -> str:
        return run_tool(bootstrap, CONSUMER_GROUPS, *map(str, arguments))

    return run


@pytest.fixture
def flights(admin: Driver, name: str) -> str:
    """A topic of three partitions with ten records each; a group of the same name is at 4 and 10."""
    admin.create_topic(name, 3)
    admin.produce(name, [Sent(value=str(number), partition=number % 3) for number in range(30)])
    admin.commit(name, name, {0: Committed(4), 1: Committed(10)})
    return name


@pytest.fixture
def member(bootstrap: str, flights: str) -> Iterator[None]:
    """A member of the group."""
    with reading(bootstrap, flights, flights, {"group.instance.id": "one"}):
        yield


def rows(printed: str, group: str) -> list[list[str]]:
    """Heading and rows about the group, in words."""
    lines = [line.split() for line in printed.splitlines() if line.startswith(("GROUP ", group))]
    return [lines[0], *sorted(lines[1:])]


@needs_kafkas_tools
@pytest.mark.parametrize("what", [["--offsets"], ["--members"], ["--members", "--verbose"]], ids=" ".join)
def test_a_group_is_described_as_kafkas_tool_does(
    ours: Command, kafkas: Command, flights: str, member: None, what: list[str]
) -> None:
    """The same columns, the same words in them."""
    asked = ("--describe", "--group", flights, *what)
    assert rows(ours(*asked), flights) == rows(kafkas(*asked), flights)


@pytest.fixture
def mixed(bootstrap: str, flights: str) -> Iterator[None]:
    """A classic member, and one of the new protocol: the group is balanced by the server now."""
    consumers: list[Consumer] = []
    for protocol in ("classic", "consumer"):
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": flights,
            "client.id": protocol,
            "group.protocol": protocol,
            "enable.auto.commit": False,
        }
        consumers.append(Consumer(settings))
        consumers[-1].subscribe([flights])
        while sum(len(consumer.assignment()) for consumer in consumers) != 3 or not all(
            consumer.assignment() for consumer in consumers
        ):
            for consumer in consumers:
                consumer.poll(0.1)
    with Admin(bootstrap) as admin:
        while (group := admin.describe_group(flights)) is None or group.state != "Stable":
            for consumer in consumers:
                consumer.poll(0.1)
    yield
    for consumer in consumers:
        consumer.close()


@needs_kafkas_tools
@pytest.mark.parametrize("what", [["--offsets"], ["--members"], ["--members", "--verbose"]], ids=" ".join)
def test_a_group_of_mixed_members_is_described_as_kafkas_tool_does(
    ours: Command, kafkas: Command, flights: str, mixed: None, what: list[str]
) -> None:
    """Epochs, what they have and are to have, and who is not upgraded yet."""
    asked = ("--describe", "--group", flights, *what)
    assert rows(ours(*asked), flights) == rows(kafkas(*asked), flights)


@needs_kafkas_tools
def test_groups_are_listed_as_kafkas_tool_does(ours: Command, kafkas: Command, flights: str) -> None:
    """By name, by state, by type."""
    for asked in (["--list"], ["--list", "--state", "empty", "--type"], ["--list", "--type", "consumer"]):
        for _ in range(10):
            before, theirs, after = (
                sorted(map(str.split, run(*asked).splitlines())) for run in (ours, kafkas, ours)
            )
            if before == after:
                break  # in between no group changed that another test has left behind
        assert before == theirs


@needs_kafkas_tools
@pytest.mark.parametrize(
    "target",
    [["--shift-by", "-7"], ["--to-offset", "100"], ["--by-duration", "PT0S"], ["--to-current"]],
    ids=" ".join,
)
def test_a_reset_leads_where_kafkas_tool_leads(
    ours: Command, kafkas: Command, flights: str, target: list[str]
) -> None:
    """What the one exports is what the other exports, and either reads it."""
    asked = ("--reset-offsets", "--group", flights, "--topic", f"{flights}:0,1", *target, "--dry-run")
    lines = kafkas(*asked, "--export").splitlines()  # and its warnings
    theirs = sorted(row for row in csv.reader(lines) if len(row) == 3)
    assert len(theirs) == 2
    assert list(csv.reader(ours(*asked, "--export").splitlines())) == theirs


@needs_kafkas_tools
def test_what_one_tool_exports_the_other_reads(
    ours: Command, kafkas: Command, flights: str, tmp_path: Path
) -> None:
    """Saved with Kafka's tool, moved, and brought back with ours; then the other way round."""
    group, everything = ("--reset-offsets", "--group", flights), ("--all-topics", "--to-current", "--dry-run")
    before = ours(*group, *everything, "--export")
    saved = tmp_path / "saved.csv"
    for save, load in ((kafkas, ours), (ours, kafkas)):
        saved.write_text(save(*group, *everything, "--export").strip() + "\n")
        ours(*group, "--all-topics", "--to-latest", "--execute")
        assert ours(*group, *everything, "--export") != before
        load(*group, "--from-file", saved, "--execute")
        assert ours(*group, *everything, "--export") == before


def test_stock_clients_notice_nothing_of_conditional_commits(
    bootstrap: str, all_drivers: Callable[[str], Driver], flights: str
) -> None:
    """They read what was set on condition, and what they commit is what the next condition sees."""
    zero = TopicPartition(TopicName(flights), 0)
    stock = ("confluent-kafka", "kafka-python", "aiokafka", "kafkajs")
    with Admin(bootstrap) as admin:
        if not admin.knows_conditions(flights):
            pytest.skip("the broker under test knows no conditions")
        offset = 4
        for name in stock:
            client = all_drivers(name)
            admin.alter_offsets(flights, {zero: offset + 1}, expected={zero: offset})
            assert client.committed(flights, flights, [0]) == {0: Committed(offset + 1)}
            offset += 10
            client.commit(flights, flights, {0: Committed(offset)})
            with pytest.raises(OffsetsMoved) as moved:
                admin.alter_offsets(flights, {zero: 0}, expected={zero: offset - 9})
            assert moved.value.current == {zero: offset}

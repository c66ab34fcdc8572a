"""Names of every kind survive the way from a commit to the tables, and from a table back into the group."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.fleet.conftest import Command
from typer.testing import CliRunner

from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.domain.ids import TopicName
from headgate.spark.landing import land, offsets_as_of, offsets_now
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

RECORDS = 5
TOPICS = ["t" * 249, "a.b_c-D", "-", "..."]
GROUPS = [
    *("a/b", "../../etc", "..", ".", "q\"u'o", "new\nline", "carriage\rreturn", "tab\t,comma", " ", "  x "),
    *(
        "\u00e9\u20ac\U0001f600",
        "e\u0301",
        "\u202eabc",
        "NA",
        "null",
        "007",
        "=1+1",
        "a\\b",
        "date=2020-01-01",
    ),
    *("\x00", "\x7f", "%2F", "${x}", "x" * 1000, "#", "*"),
]


@pytest.mark.timeout(120)
def test_names_of_every_kind_come_back(tmp_path: Path, command: Command) -> None:
    """By the tables, by the CSV of a question to them, and by a reset from it."""
    target, table, plan = (tmp_path / name for name in ("tables", "before.csv", "plan.csv"))
    with (
        run({"offsets.topic.num.partitions": "5"}, data_dir=tmp_path / "data") as broker,
        Admin(broker.bootstrap_servers) as admin,
    ):
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS]
        admin.cluster.any_node().request(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        produce(broker.bootstrap_servers)
        expected = {
            (group, TopicPartition(TopicName(topic), 1)): (number + at) % RECORDS + 1
            for number, group in enumerate(GROUPS)
            for at, topic in enumerate(TOPICS)
        }
        commit(admin, expected)
        land(broker.bootstrap_servers, str(target))
        for found in (offsets_now(str(target)), offsets_as_of(str(target), 1 << 42)):
            assert {
                (row["group_id"], TopicPartition(row["topic"], row["partition"])): row["committed_offset"]
                for row in found.to_pylist()
            } == expected
        printed = CliRunner().invoke(app, ["spark", "offsets", str(target), "--output", "csv"])
        assert printed.exit_code == 0
        table.write_bytes(printed.stdout_bytes)
        commit(admin, dict.fromkeys(expected, 0))
        reset = ["reset", "--bootstrap-server", broker.bootstrap_servers, "--plan", plan]
        for step in (["--from-table", table], ["--execute"]):
            result = command(*reset, *step)
            assert result.exit_code == 0, result.stderr
        assert committed(admin) == expected


def produce(bootstrap: str) -> None:
    """Append records to each topic: an offset behind the end of a log is not set."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic in TOPICS:
        for _ in range(RECORDS):
            producer.produce(topic, b"x", partition=1)
    assert producer.flush(20) == 0


def commit(admin: Admin, offsets: dict[tuple[str, TopicPartition], int]) -> None:
    """Set the offsets of groups."""
    for group in GROUPS:
        admin.alter_offsets(group, {place: at for (name, place), at in offsets.items() if name == group})


def committed(admin: Admin) -> dict[tuple[str, TopicPartition], int]:
    """Return the committed offsets of all groups."""
    return {
        (group, place): found.offset
        for group in GROUPS
        for place, found in admin.committed_offsets(group).items()
    }

"""Apache Kafka's own command-line tools, which are the Java client with its Admin, producer and consumer.

They are the only ones here that need `make kafka` first; without it these tests are skipped and say so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from bench.kafka.broker import java_command
from tests.compat.conftest import OFFSETS_TOPIC_PARTITIONS
from tests.compat.support.driver import ALL_CODECS, Committed, Driver, Sent
from tests.compat.support.kafkas_tools import (
    CONSUMER_GROUPS,
    TOOLS,
    needs_kafkas_tools,
    run_java,
    run_tool,
)
from tests.compat.support.members import Join
from tests.waiting import wait_until

from headgate.domain.partitioning import partition_for
from headgate.inspect.reading import FoundBatch, LogFile, walk

pytestmark = needs_kafkas_tools

Tool = Callable[..., str]


@pytest.fixture
def tool(bootstrap: str) -> Tool:
    """Runs one of Kafka's tools against the broker and returns what it printed."""
    return partial(run_tool, bootstrap)


def test_kafka_topics(tool: Tool, admin: Driver, name: str) -> None:
    """kafka-topics creates a topic with settings and describes it partition by partition."""
    command = TOOLS + "TopicCommand"
    tool(command, "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=1234567")
    assert admin.partition_count(name) == 3
    described = tool(command, "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1234567" in described
    assert described.count("Leader: ") == 3


def test_kafka_configs(tool: Tool, admin: Driver, name: str) -> None:
    """kafka-configs changes a topic's setting and takes it back."""
    admin.create_topic(name)
    where = ("--entity-type", "topics", "--entity-name", name, "--alter")
    tool("kafka.admin.ConfigCommand", *where, "--add-config", "retention.ms=7654321")
    wait_until(lambda: admin.topic_config(name)["retention.ms"] == "7654321", "the new value is in force")
    tool("kafka.admin.ConfigCommand", *where, "--delete-config", "retention.ms")
    wait_until(lambda: admin.topic_config(name)["retention.ms"] == "604800000", "the default is in force")
    assert admin.topic_config(name)["retention.ms"] == "604800000"


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_the_console_producer_writes_with_every_codec(
    codec: str, tool: Tool, admin: Driver, name: str
) -> None:
    """What Java compresses is read by Python."""
    admin.create_topic(name)
    lines = [f"{codec} {number}" for number in range(500)]
    arguments = ("--topic", name, "--compression-codec", codec)
    tool(TOOLS + "ConsoleProducer", *arguments, given="\n".join(lines) + "\n")
    assert [record.value for record in admin.consume(name, len(lines))] == lines


def test_the_console_consumer_reads_every_codec_in_a_group(tool: Tool, admin: Driver, name: str) -> None:
    """What Python compresses is read by Java, which commits what it has read."""
    admin.create_topic(name, len(ALL_CODECS))
    sent = []
    for partition, codec in enumerate(ALL_CODECS):
        values = [f"{codec} {number:02} {'long ' * 50}" for number in range(20)]
        admin.produce(name, [Sent(value=value, partition=partition) for value in values], codec=codec)
        sent += values
    printed = tool(
        TOOLS + "consumer.ConsoleConsumer",
        *("--topic", name, "--group", name, "--from-beginning"),
        *("--max-messages", str(len(sent)), "--timeout-ms", "20000"),
    )
    assert sorted(printed.splitlines()) == sorted(sent)
    everything = dict.fromkeys(range(len(ALL_CODECS)), Committed(20))
    assert admin.committed(name, name, list(everything)) == everything


def test_kafka_consumer_groups(tool: Tool, admin: Driver, name: str) -> None:
    """kafka-consumer-groups shows the lag of a group, resets it, and deletes its offsets and itself."""
    admin.create_topic(name, 2)
    admin.produce(name, [Sent(value=str(number), partition=number % 2) for number in range(20)])
    admin.commit(name, name, {0: Committed(4), 1: Committed(10)})
    command, group = CONSUMER_GROUPS, ("--group", name)

    rows = [line.split() for line in tool(command, "--describe", *group).splitlines() if name in line]
    # GROUP, TOPIC, PARTITION, CURRENT-OFFSET, LOG-END-OFFSET, LAG
    assert sorted(row[:6] for row in rows) == [
        [name, name, "0", "4", "10", "6"],
        [name, name, "1", "10", "10", "0"],
    ]
    tool(command, *group, "--reset-offsets", "--shift-by", "-2", "--topic", name, "--execute")
    assert admin.committed(name, name, [0, 1]) == {0: Committed(2), 1: Committed(8)}
    tool(command, *group, "--delete-offsets", "--topic", f"{name}:1")
    assert admin.committed(name, name, [0, 1]) == {0: Committed(2), 1: None}
    tool(command, *group, "--delete")
    assert name not in admin.groups()


def test_kafka_delete_records_and_get_offsets(tool: Tool, admin: Driver, name: str, tmp_path: Path) -> None:
    """kafka-delete-records moves the log's start, which kafka-get-offsets tells."""
    admin.create_topic(name)
    admin.produce(name, [Sent(value=str(number)) for number in range(10)])
    asked = tmp_path / "delete.json"
    partition = {"topic": name, "partition": 0, "offset": 7}
    asked.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    tool(TOOLS + "DeleteRecordsCommand", "--offset-json-file", str(asked))
    offsets = TOOLS + "GetOffsetShell"
    assert tool(offsets, "--topic", name, "--time", "earliest").strip() == f"{name}:0:7"
    assert tool(offsets, "--topic", name, "--time", "latest").strip() == f"{name}:0:10"


def test_kafka_broker_api_versions(tool: Tool) -> None:
    """The Java client understands every API that the broker advertises."""
    printed = tool(TOOLS + "BrokerApiVersionsCommand")
    assert "OffsetCommit(8)" in printed
    assert "ERROR" not in printed


@pytest.fixture
def java_member(bootstrap: str, name: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Java consumer in a group, which prints what it reads to a file, `printed`, until it is stopped."""
    command = java_command(
        TOOLS + "consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", name, "--group", name, "--from-beginning"),
        *("--command-property", "session.timeout.ms=45000"),
        *("--command-property", "heartbeat.interval.ms=500"),
    )
    with (tmp_path / "printed").open("w") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL, start_new_session=True)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_a_java_consumer_shares_a_group_with_a_python_one(
    admin: Driver, join: Join, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Both have half of the partitions; when the Java one is told to stop, the other has all of them."""
    admin.create_topic(name, 4)
    java: subprocess.Popen[bytes] = request.getfixturevalue("java_member")
    python = join("confluent-kafka", name, name)
    wait_until(lambda: len(python.partitions) == 2, lambda: f"{python} shares with Java", timeout_s=30)
    assert admin.describe_group(name).state == "Stable"
    admin.produce(name, [Sent(value=f"{p}-{n}", partition=p) for p in range(4) for n in range(10)])
    wait_until(lambda: len(python.records) == 20, lambda: f"{python} has read its half")
    printed = tmp_path / "printed"
    wait_until(lambda: len(printed.read_text().split()) == 20, "Java has read the other half")
    theirs = {partition for partition in range(4) if partition not in python.partitions}
    java.terminate()
    python.wait_until_it_owns([0, 1, 2, 3])  # Long before the session of the Java member ends: it left.
    java.wait(20)
    assert sorted(printed.read_text().split()) == sorted(f"{p}-{n}" for p in theirs for n in range(10))


def test_kafka_dump_log_reads_our_files(
    admin: Driver, server_directory: Path | None, tmp_path: Path, name: str
) -> None:
    """Segments and their indexes are Kafka's own, so that its tool decodes and checks them."""
    if server_directory is None:
        pytest.skip("the broker is not ours: where its files lie is not known")
    admin.create_topic(name)
    for codec in ALL_CODECS:
        admin.produce(name, [Sent(value=f"{codec} {number}") for number in range(10)], codec=codec)
    admin.commit(name, name, {0: Committed(7, "seven")})
    (segment,) = server_directory.rglob(f"{name}-0/*.log")
    done = run_java(TOOLS + "DumpLogSegments", "--print-data-log", "--files", str(segment))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("payload: ") == 50
    assert "isvalid: false" not in done.stdout
    shard = partition_for(name, OFFSETS_TOPIC_PARTITIONS)
    (offsets,) = server_directory.rglob(f"__consumer_offsets-{shard}/*.log")
    # A live log may have room ahead, where the tool stops with an error, as with Kafka's own `preallocate`.
    with LogFile(offsets) as file:
        *_, last = (found for found in walk(file) if isinstance(found, FoundBatch))
        (tmp_path / offsets.name).write_bytes(file.read(last.end, 0))
    done = run_java(TOOLS + "DumpLogSegments", "--offsets-decoder", "--files", str(tmp_path / offsets.name))
    assert done.returncode == 0, done.stderr
    (decoded,) = [line for line in done.stdout.splitlines() if name in line]
    assert '"offset":7' in decoded and '"metadata":"seven"' in decoded

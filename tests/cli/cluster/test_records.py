"""`headgate produce` and `headgate consume`: lines become records and lines again."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.cli.cluster.conftest import Headgate
from tests.client.conftest import StartNode, start_node
from tests.client.scripted import Answer, every_version
from tests.waiting import wait_until
from typer.testing import CliRunner

from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.client.cluster import EARLIEST
from headgate.domain.ids import TopicName
from headgate.log.batch import Record, encode_batch
from headgate.wire.codec import decode
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headgate.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headgate.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

__all__ = ["start_node"]

METADATA, LIST_OFFSETS, API_VERSIONS = 3, 2, 18

pytestmark = pytest.mark.timeout(90)
READ = ("--from-beginning", "--to-end")


def lines(headgate: Headgate, topic: str, *more: str) -> list[str]:
    """Return all records of a topic as text, sorted."""
    done = headgate("consume", "--topic", topic, *READ, *more)
    assert done.exit_code == 0, done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back(headgate: Headgate, name: str, codec: str) -> None:
    """Whatever they are compressed with. The broker creates the topic, and the command says so."""
    text = "".join(f"line {number}\n" for number in range(3000)) + "the last one, without an end"
    made = headgate("produce", "--topic", name, "--compression-codec", codec, stdin=text)
    assert made.exit_code == 0, made.stderr
    assert f"the topic {name} did not exist; the broker created it with 1 partition\n" in made.stderr
    assert lines(headgate, name) == sorted(text.splitlines())


def test_keys_headers_and_null_values_are_parsed_and_printed(headgate: Headgate, name: str) -> None:
    """By the properties of Kafka's tools, to the same partitions as librdkafka's murmur2."""
    headgate("topics", "--create", "--topic", name, "--partitions", "5")
    properties = ("parse.key=true", "key.separator=|", "parse.headers=true", "null.marker=NULL")
    words = [word for each in properties for word in ("--property", each)]
    text = "a:1,b:NULL\tkey-1|value\n\nc:3\tkey-2|NULL\n".replace("\n\n", "\n")
    made = headgate("produce", "--topic", name, *words, stdin=text)
    assert made.exit_code == 0, made.stderr
    done = headgate("consume", "--topic", name, *READ, "--output", "json")
    found = {one["key"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert found["key-1"]["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": None}]
    assert (found["key-1"]["value"], found["key-2"]["value"]) == ("value", None)
    printed = [
        word for what in ("key", "headers", "partition") for word in ("--property", f"print.{what}=true")
    ]
    partition = found["key-2"]["partition"]
    assert f"Partition:{partition}\tc:3\tkey-2\tnull" in lines(headgate, name, *printed)


def test_keys_go_where_the_clients_of_kafka_send_them(
    headgate: Headgate, name: str, bootstrap_servers: str
) -> None:
    """So that records of one key stay in order, whoever produced them."""
    headgate("topics", "--create", "--topic", name, "--partitions", "7")
    keys = [f"key-{number}" for number in range(40)]
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(name, key=key, value="theirs")
    assert producer.flush(20) == 0
    text = "".join(f"{key}\tours\n" for key in keys)
    assert headgate("produce", "--topic", name, "--property", "parse.key=true", stdin=text).exit_code == 0
    done = headgate("consume", "--topic", name, *READ, "--output", "json")
    places: dict[str, set[int]] = {}
    for one in map(json.loads, done.stdout.splitlines()):
        places.setdefault(one["key"], set()).add(one["partition"])
    assert {key: len(found) for key, found in places.items()} == dict.fromkeys(keys, 1)


def test_bytes_that_are_no_text_survive(headgate: Headgate, name: str, tmp_path: Path) -> None:
    """In the text they are as they are, in JSON as base64."""
    file = tmp_path / "lines"
    file.write_bytes(b"\xff\xfe\x00 \xc3\x28\n")
    assert headgate("produce", "--topic", name, "--file", file).exit_code == 0
    done = headgate("consume", "--topic", name, *READ)
    assert done.stdout_bytes == b"\xff\xfe\x00 \xc3\x28\n"
    (document,) = map(
        json.loads, headgate("consume", "--topic", name, *READ, "--output", "json").stdout.splitlines()
    )
    assert document["value"] == {"base64": "//4AIMMo"}
    table = headgate("consume", "--topic", name, *READ, "--output", "csv").stdout
    assert next(csv.DictReader(io.StringIO(table)))["value"] == '{"base64": "//4AIMMo"}'


def test_limits_stop_the_command(headgate: Headgate, name: str) -> None:
    """A number of records, a time without any, an offset, a partition."""
    headgate("produce", "--topic", name, stdin="".join(f"{number}\n" for number in range(10)))
    assert lines(headgate, name, "--max-messages", "3") == ["0", "1", "2"]
    idle = headgate("consume", "--topic", name, "--from-beginning", "--timeout-ms", "300")
    assert len(idle.stdout.splitlines()) == 10
    at = headgate("consume", "--topic", name, "--partition", "0", "--offset", "8", "--to-end")
    assert at.stdout == "8\n9\n"
    behind = headgate("consume", "--topic", name, "--partition", "0", "--offset", "99", "--timeout-ms", "300")
    assert (behind.exit_code, behind.stdout) == (0, "")
    assert f"{name}-0 has no offset 99; going on at 10" in behind.stderr
    several = headgate("consume", "--include", f"{name}.*", *READ)
    assert len(several.stdout.splitlines()) == 10


def test_only_committed_records_are_read_if_wanted(
    headgate: Headgate, name: str, bootstrap_servers: str
) -> None:
    """Those of an aborted transaction are left out, and the broker's own records always."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name})
    headgate("topics", "--create", "--topic", name)
    producer.init_transactions(20)
    for text, end in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(name, text)
        producer.flush(20)
        end(20)
    assert lines(headgate, name, "--isolation-level", "read_committed") == ["kept"]
    assert lines(headgate, name) == ["dropped", "kept"]


def test_what_an_open_transaction_holds_back_is_told(
    bootstrap_servers: str, headgate: Headgate, name: str
) -> None:
    """Without a group and with one, up to the end and on; not to a reader of all records."""
    with Admin(bootstrap_servers) as admin:
        admin.create_topic(name, 1)
    headgate("produce", "--topic", name, stdin="before\n")
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(name, b"open")
    assert producer.flush(10) == 0
    read = ("consume", "--topic", name, "--from-beginning")
    held_back = f"headgate: {name}-0 was not read from offset 1 on, behind an open transaction; "
    for more in (["--to-end"], ["--timeout-ms", "600"], ["--group", name, "--to-end"]):
        done = headgate(*read, "--isolation-level", "read_committed", *more)
        assert done.stdout == "before\n"
        assert done.stderr.splitlines()[1].startswith(held_back), done.stderr
    everything = headgate(*read, "--to-end")
    assert everything.stdout == "before\nopen\n"
    assert everything.stderr == "headgate: 2 records\n"
    producer.abort_transaction(10)
    done = headgate(*read, "--isolation-level", "read_committed", "--to-end")
    assert done.stderr == "headgate: 1 record\n"


def test_a_group_continues_where_it_stopped(headgate: Headgate, name: str, bootstrap_servers: str) -> None:
    """Offsets are committed at the end; another client of the group goes on from there."""
    headgate("produce", "--topic", name, stdin="".join(f"{number}\n" for number in range(6)))
    member = ("consume", "--topic", name, "--group", name, "--from-beginning")
    assert headgate(*member, "--max-messages", "4").stdout == "0\n1\n2\n3\n"
    with Admin(bootstrap_servers) as admin:
        assert [one.offset for one in admin.committed_offsets(name).values()] == [4]
        wait_until(lambda: not _members(admin, name), "the group is left")
    assert headgate(*member, "--max-messages", "2").stdout == "4\n5\n"
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"{name}-other"})
    consumer.close()


def _members(admin: Admin, group: str) -> int:
    described = admin.describe_group(group)
    return len(described.members) if described else 0


def test_ctrl_c_ends_a_consumer_and_commits(name: str, headgate: Headgate, bootstrap_servers: str) -> None:
    """The exit code is 0, and the group is left."""
    headgate("produce", "--topic", name, stdin="one\n")
    words = ["consume", "--bootstrap-server", bootstrap_servers, "--topic", name, "--group", name]
    command = [sys.executable, "-m", "headgate", *words, "--from-beginning"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        time.sleep(0.5)  # until it waits for the next record
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "headgate: 1 record\n")
    with Admin(bootstrap_servers) as admin:
        assert [one.offset for one in admin.committed_offsets(name).values()] == [1]


def test_a_slow_input_is_sent_line_by_line(name: str, headgate: Headgate, bootstrap_servers: str) -> None:
    """What is in a pipe does not wait for the pipe's end."""
    command = [sys.executable, "-m", "headgate", "produce", "--bootstrap-server", bootstrap_servers]
    with subprocess.Popen([*command, "--topic", name], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        wait_until(lambda: "first\n" in headgate("consume", "--topic", name, *READ).stdout, "the line")
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_reader_that_stops_ends_the_command(name: str, headgate: Headgate, bootstrap_servers: str) -> None:
    """`headgate consume ... | head -1` does not end in a traceback."""
    headgate("produce", "--topic", name, stdin="x" * 100 + "\n" + "".join(f"{n:>99}\n" for n in range(5000)))
    command = [sys.executable, "-m", "headgate", "consume", "--bootstrap-server", bootstrap_servers]
    process = subprocess.Popen(
        [*command, "--topic", name, *READ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(20) == 1
    assert b"Traceback" not in said


@pytest.mark.parametrize("member", [(), ("--group", "of-a-pipe")], ids=["alone", "member"])
def test_a_reader_that_stops_ends_a_command_that_waits(
    member: tuple[str, ...], name: str, headgate: Headgate, bootstrap_servers: str
) -> None:
    """`headgate consume ... | head -1` ends at once, not with the next record."""
    headgate("produce", "--topic", name, stdin="one\ntwo\n")
    words = ["--bootstrap-server", bootstrap_servers, "--topic", name, "--from-beginning", *member]
    with subprocess.Popen(
        [sys.executable, "-m", "headgate", "consume", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        assert command.stdout.readline() == b"one\n"
        time.sleep(1)  # until it waits for the next record
        command.stdout.close()
        assert command.wait(20) == 1
        assert command.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("consume", 2, "--topic or --include is expected"),
        ("consume --topic t --include t", 2, "--topic or --include is expected"),
        ("consume --topic t --offset 3", 2, "--offset goes with --partition"),
        ("consume --topic t --partition 0 --offset soon", 2, "a number, earliest or latest"),
        (
            "consume --topic t --partition 0 --group g",
            2,
            "--partition goes with --topic, and without --group",
        ),
        ("consume --topic t --isolation-level high", 2, "one of read_uncommitted, read_committed"),
        ("consume --topic t --property print.everything=1", 2, "NAME being one of print.timestamp"),
        ("consume --topic t --output xml", 2, "text, json or csv"),
        ("consume --topic no-such-topic --to-end", 1, "no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"),
        ("consume --include no-such-.*", 2, "no topic has such a name"),
        ("consume --include [", 2, "no regular expression"),
        ("produce --topic t --property parse.keys=true", 2, "NAME being one of parse.key"),
        ("produce --topic t --compression-codec zip", 2, "one of none, gzip"),
        ("produce --topic t --request-required-acks 0", 2, "all or 1 is expected"),
        ("produce --topic t --file /no/such.file", 2, "--file /no/such.file: No such file"),
        ("produce --topic a/b", 1, "a/b: INVALID_TOPIC_EXCEPTION"),
        ("produce --topic parsed --property parse.key=true", 2, "line 1 has no key.separator ('\\t')"),
    ],
)
def test_a_mistake_is_named(headgate: Headgate, words: str, code: int, says: str) -> None:
    """Exit code 2 for the command line, and 1 for what the broker refuses."""
    refused = headgate(*words.split(), stdin="x\n")
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert says in refused.stderr


# --- hostile lines and brokers that go away ---


def documents(headgate: Headgate, topic: str) -> list[dict[str, object]]:
    """Return all records of a topic."""
    done = headgate("consume", "--topic", topic, *READ, "--output", "json")
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_many_records_of_no_size_are_several_batches(headgate: Headgate, name: str) -> None:
    """What a record takes besides its value counts, too: one batch of all would be too large."""
    made = headgate("produce", "--topic", name, stdin="\n" * 300_000)
    assert made.exit_code == 0, made.stderr
    done = headgate("consume", "--topic", name, *READ)
    assert (done.stdout, done.stderr) == ("\n" * 300_000, "headgate: 300000 records\n")


def test_lines_before_an_invalid_one_are_produced(headgate: Headgate, name: str) -> None:
    """All of them, however the input was cut into pieces; the message tells how many."""
    text = "a\t1\nb\t2\nno key\nc\t3\n"
    made = headgate("produce", "--topic", name, "--property", "parse.key=true", stdin=text)
    assert made.exit_code == 2
    assert "line 3 has no key.separator" in made.stderr
    assert "ignore.error=true; 2 records were produced before" in made.stderr
    assert [one["key"] for one in documents(headgate, name)] == ["a", "b"]


def test_what_is_missing_in_a_line_is_null_if_errors_are_ignored(headgate: Headgate, name: str) -> None:
    """As in Kafka's tool: no key, no headers, a header without a value."""
    words = ["parse.key=true", "parse.headers=true", "ignore.error=true", "null.marker=NULL"]
    given = [word for each in words for word in ("--property", each)]
    text = "value\nh:1,lonely\tkey\tvalue\nNULL\tNULL\tNULL\nh:1,,\tkey\tvalue\n"
    made = headgate("produce", "--topic", name, "--property", "headers.delimiter=|", stdin="x")
    made = headgate("produce", "--topic", name, *given, stdin=text)
    assert made.exit_code == 0, made.stderr
    found = [(one["key"], one["value"], one["headers"]) for one in documents(headgate, name)[1:]]
    header = {"key": "h", "value": "1"}
    assert found == [
        (None, "value", []),
        ("key", "value", [header, {"key": "lonely", "value": None}]),
        (None, None, []),
        ("key", "value", [header]),
    ]


def test_an_empty_null_marker_makes_empty_values_null(headgate: Headgate, name: str) -> None:
    """As in Kafka's tool; without the property an empty line is an empty value."""
    headgate("produce", "--topic", name, stdin="\n")
    headgate("produce", "--topic", name, "--property", "null.marker=", stdin="\n")
    assert [one["value"] for one in documents(headgate, name)] == ["", None]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["key.separator="], "key.separator=: a text is expected"),
        (["headers.separator=:"], "headers.separator and headers.key.separator are the same"),
        (["headers.delimiter=,"], "headers.delimiter and headers.separator are the same"),
        (["null.marker=\t"], "null.marker and key.separator are the same"),
    ],
)
def test_properties_that_no_line_can_follow_are_refused(
    headgate: Headgate, name: str, given: list[str], says: str
) -> None:
    """Before anything is sent."""
    words = [word for each in given for word in ("--property", each)]
    refused = headgate("produce", "--topic", name, "--property", "parse.key=true", *words, stdin="a\tb\n")
    assert refused.exit_code == 2
    assert says in refused.stderr


def test_separators_are_any_bytes(headgate: Headgate, name: str) -> None:
    """Of the command line, when they are read and when they are printed."""
    text = b"key\xfevalue\n"
    parsed = ("--property", "parse.key=true", "--property", "key.separator=\udcfe")
    made = headgate("produce", "--topic", name, *parsed, stdin=text)
    assert made.exit_code == 0, made.stderr
    shown = ("--property", "print.key=true", "--property", "key.separator=\udcff")
    ends = ("--property", "line.separator=\udcfd", "--property", "null.literal=\udcfc")
    done = headgate("consume", "--topic", name, *READ, *shown, *ends)
    assert done.stdout_bytes == b"key\xffvalue\xfd"


def test_a_huge_line_is_one_record(headgate: Headgate, name: str) -> None:
    """If the topic takes it; else the broker's refusal names the partition, and what came before counts."""
    headgate("topics", "--create", "--topic", name, "--config", "max.message.bytes=20000000")
    line = "x" * 12_000_000
    assert headgate("produce", "--topic", name, stdin=line).exit_code == 0
    assert headgate("consume", "--topic", name, *READ).stdout == line + "\n"
    headgate("produce", "--topic", f"{name}-small", stdin="x\n")
    refused = headgate("produce", "--topic", f"{name}-small", stdin=f"1\n2\n{line}\n")
    assert refused.exit_code == 1
    assert "MESSAGE_TOO_LARGE" in refused.stderr
    assert "; 2 records were produced before" in refused.stderr


def test_a_refused_record_has_the_reason_of_the_broker(headgate: Headgate, name: str) -> None:
    """Not only the number of refused records, which the response has for the batch."""
    headgate("topics", "--create", "--topic", name, "--config", "cleanup.policy=compact")
    refused = headgate("produce", "--topic", name, stdin="no key\n")
    assert refused.exit_code == 1
    assert "INVALID_RECORD" in refused.stderr
    assert "Compacted topic cannot accept message without key" in refused.stderr


def test_a_signal_of_the_system_ends_a_consumer_as_ctrl_c(
    name: str, headgate: Headgate, bootstrap_servers: str
) -> None:
    """Its offsets are committed and the group is left: a service that is stopped repeats no records."""
    headgate("produce", "--topic", name, stdin="one\n")
    words = ["consume", "--bootstrap-server", bootstrap_servers, "--topic", name, "--group", name]
    command = [sys.executable, "-m", "headgate", *words, "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        time.sleep(0.5)  # until it waits for the next record
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "headgate: 1 record\n")
    with Admin(bootstrap_servers) as admin:
        assert [one.offset for one in admin.committed_offsets(name).values()] == [1]
        assert _members(admin, name) == 0


def test_a_broker_that_restarts_is_waited_for(name: str, tmp_path: Path) -> None:
    """A producer and a consumer go on where they were: no record is lost, and none is there twice."""
    python = [sys.executable, "-m", "headgate"]
    with run(data_dir=tmp_path / "data") as broker:
        where = ("--bootstrap-server", broker.bootstrap_servers, "--topic", name, "--timeout", "60000")
        with subprocess.Popen([*python, "produce", *where], stdin=subprocess.PIPE) as producer:
            assert producer.stdin is not None
            producer.stdin.write(b"first\n")
            producer.stdin.flush()
            reading = [*python, "consume", *where, "--from-beginning", "--max-messages", "2"]
            wait_until(lambda: broker_has(broker.bootstrap_servers, name), "the first record")
            with subprocess.Popen(reading, stdout=subprocess.PIPE) as consumer:
                assert consumer.stdout is not None
                assert consumer.stdout.readline() == b"first\n"
                broker.kill()
                producer.stdin.write(b"second\n")
                producer.stdin.flush()
                time.sleep(1)  # both find that nobody listens
                broker.start()
                assert consumer.stdout.readline() == b"second\n"
                assert consumer.wait(20) == 0
            producer.stdin.close()
            assert producer.wait(20) == 0


def broker_has(servers: str, topic: str) -> bool:
    """Whether a topic has a record."""
    with Admin(servers) as admin:
        if topic not in admin.topics():
            return False
        return sum(admin.log_end_offsets(admin.partitions_of(topic)).values()) > 0


def test_the_end_is_reached_over_offsets_that_nothing_has_any_more(start_node: StartNode) -> None:
    """Where compaction removed the last records, a fetch has none, and the log ends behind them."""
    here = TopicPartition(TopicName("compacted"), 0)

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == API_VERSIONS:
            return every_version()
        if header.api_key == METADATA:
            partition = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host=node.host, port=node.port)],
                topics=[MetadataResponseTopic(name=here.topic, partitions=[partition])],
            )
        if header.api_key == LIST_OFFSETS:
            request = decode(ListOffsetsRequest, header.api_version, frame, header.body_at)
            is_start = request.topics[0].partitions[0].timestamp == EARLIEST
            found = ListOffsetsPartitionResponse(partition_index=0, offset=0 if is_start else 10)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=here.topic, partitions=[found])])
        asked = decode(FetchRequest, header.api_version, frame, header.body_at).topics[0].partitions[0]
        records = bytes(encode_batch([Record(None, b"kept")])) if asked.fetch_offset == 0 else b""
        answer = PartitionData(partition_index=0, high_watermark=10, last_stable_offset=10, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic=here.topic, partitions=[answer])])

    node = start_node(script)
    words = ["consume", "--topic", here.topic, *READ, "--bootstrap-server", f"{node.host}:{node.port}"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (0, "kept\n"), done.stderr


def test_a_deleted_topic_does_not_end_the_others(
    headgate: Headgate, name: str, bootstrap_servers: str
) -> None:
    """Of those that match a pattern. The command says which one it goes on without."""
    for topic in (f"{name}-a", f"{name}-b"):
        headgate("produce", "--topic", topic, stdin=f"first of {topic}\n")
    words = [
        "consume",
        "--bootstrap-server",
        bootstrap_servers,
        "--include",
        f"{name}-.*",
        "--from-beginning",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "headgate", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        first = {consumer.stdout.readline() for _ in range(2)}
        assert first == {f"first of {name}-a\n", f"first of {name}-b\n"}
        headgate("topics", "--delete", "--topic", f"{name}-a")
        assert consumer.stderr.readline() == f"headgate: topic {name}-a was deleted; going on without it\n"
        headgate("produce", "--topic", f"{name}-b", stdin="second\n")
        assert consumer.stdout.readline() == "second\n"
        consumer.send_signal(signal.SIGTERM)
        assert consumer.wait(20) == 0

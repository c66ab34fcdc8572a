"""`headgate log dump` and `verify` of transactions, and what Kafka's own tool says of the same files."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.inspect.support import errors, notes, open_topics
from tests.topics.disk import NOW
from tests.topics.transactions import Writer
from typer.testing import CliRunner

from headgate.cli import app
from headgate.domain.ids import TopicId
from headgate.log.filesystem import OsFileSystem
from headgate.server.identity import cluster_id
from headgate.topics.partition_files import PRODUCERS_FILE
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic

JARS = Path(__file__).parents[2] / "build" / "kafka" / "libs"
FLIGHTS = "flights-0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a directory with three segments, six aborted transactions and an open one; closed cleanly."""
    data_dir = tmp_path_factory.mktemp("whole") / "data"
    data_dir.mkdir()
    topics = open_topics(data_dir)
    cluster_id(OsFileSystem(), topics, NOW)
    topic = topics.create(NewTopic("flights", TopicId(b"f" * 16), 1, {"segment.bytes": "1024"}), NOW)
    assert isinstance(topic, Topic)
    for number in range(9):
        writer = Writer(topic, number)
        writer.write(b"%d" % number * 100)
        writer.end(is_committed=number % 3 == 0, coordinator_epoch=4)
    Writer(topic, 99, epoch=2).write(b"open")
    topics.close()
    return data_dir


@pytest.fixture
def data_dir(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, which tests can change."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def indexes(data_dir: Path) -> list[Path]:
    return sorted((data_dir / FLIGHTS).glob("*.txnindex"))


def test_a_dump_tells_markers_and_open_transactions(whole: Path) -> None:
    """In words and as JSON."""
    arguments = ["log", "dump", str(whole), "--partition", FLIGHTS, "--records"]
    lines = CliRunner().invoke(app, arguments, env={"COLUMNS": "160"}).stdout
    assert "meaning: transaction marker: ABORT, coordinator epoch 4" in lines
    assert f"Open transaction: producerId: 99 producerEpoch: 2 firstOffset: 18 firstTimestamp: {NOW}" in lines
    found = json.loads(CliRunner().invoke(app, [*arguments, "--output", "json"]).stdout)["partitions"][0]
    assert found["open_transactions"] == [
        {"producer_id": 99, "producer_epoch": 2, "first_offset": 18, "first_timestamp": NOW}
    ]
    meanings = [batch["records"][0]["meaning"] for batch in found["batches"] if batch["is_control"]]
    assert [(one["marker"], one["coordinator_epoch"]) for one in meanings[:2]] == [
        ("COMMIT", 4),
        ("ABORT", 4),
    ]
    assert all(batch["is_transactional"] for batch in found["batches"])


def test_sound_indexes_have_no_findings(whole: Path) -> None:
    """Neither of a cleanly closed directory."""
    assert len(indexes(whole)) > 2
    assert errors(whole) == notes(whole) == []


@pytest.mark.parametrize("damage", ["missing", "cut", "noise", "another", "more"])
def test_an_index_that_disagrees_with_the_log_is_told(data_dir: Path, damage: str) -> None:
    """By its file; the next start mends it."""
    path = indexes(data_dir)[0]
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        other = data[:2] + (77).to_bytes(8, "big") + data[10:]
        path.write_bytes({"cut": data[34:], "noise": data + b"x", "another": other}.get(damage, data * 2))
    assert not errors(data_dir)
    assert {found.file for found in notes(data_dir)} == {f"{FLIGHTS}/{path.name}"}
    topics = open_topics(data_dir)
    topic = topics.by_name("flights")
    assert topic is not None and topic.partition(0).last_stable_offset == 18
    topics.close()
    assert path.read_bytes() == data
    assert errors(data_dir) == notes(data_dir) == []


@pytest.mark.skipif(
    shutil.which("java") is None or not list(JARS.glob("kafka-tools-*.jar")),
    reason="no Java, or Apache Kafka is not fetched (make kafka)",
)
def test_kafkas_dump_reads_the_index_and_the_markers(whole: Path) -> None:
    """Every aborted transaction, and how each marker ended one."""
    first = indexes(whole)[0]
    dumped = subprocess.run(
        [
            *("java", "-cp", f"{JARS}/*", "org.apache.kafka.tools.DumpLogSegments", "--print-data-log"),
            *("--files", f"{first},{first.with_suffix('.log')}"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4" in dumped
    assert "endTxnMarker: ABORT coordinatorEpoch: 4" in dumped
    assert PRODUCERS_FILE not in dumped

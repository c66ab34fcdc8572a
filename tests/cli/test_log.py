"""`headgate log dump`, `verify` and `mend`, for users and for programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.inspect.support import FLIGHTS, OFFSETS, build
from typer.testing import CliRunner, Result

from headgate.broker import run
from headgate.cli import app

JARS = Path(__file__).parents[2] / "build" / "kafka" / "libs"
LAST = f"{FLIGHTS}/{195:020d}.log"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a data directory that was closed cleanly. Tests must not change it."""
    return build(tmp_path_factory.mktemp("whole") / "data")


@pytest.fixture
def data_dir(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, which tests can change."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a new process."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", "log", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "160"},
    )


def headgate(*arguments: str | Path) -> Result:
    """Run the command in this process, which is faster."""
    return CliRunner().invoke(app, ["log", *map(str, arguments)], env={"COLUMNS": "160"})


def as_json(*arguments: str | Path) -> dict[str, Any]:
    finished = headgate(*arguments, "--output", "json")
    assert finished.exit_code in (0, 1), finished.stderr
    assert finished.stderr == ""
    return dict(json.loads(finished.stdout))


# Refused directories and options.


@pytest.mark.parametrize("command", ["dump", "verify", "mend"])
def test_a_path_that_is_not_a_data_directory_is_refused(tmp_path: Path, command: str) -> None:
    """A missing path, a file, or another directory: the exit code is 2, the message says what is expected."""
    (tmp_path / "file").write_text("")
    (tmp_path / "photos").mkdir()
    for name, says in {
        "nowhere": "does not exist",
        "file": "is a file; a server's data directory is expected",
        "photos": "has neither a catalogue nor a partition",
    }.items():
        finished = headgate(command, tmp_path / name)
        assert (finished.exit_code, finished.stdout) == (2, "")
        assert finished.stderr.startswith(f"headgate: {tmp_path / name}")
        assert says in finished.stderr
    assert headgate(command, tmp_path, "--output", "xml").exit_code == 2


@pytest.fixture
def readable_by_all(whole: Path) -> Iterator[Path]:
    """A copy of the directory in a place that other users can access."""
    with TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        path = Path(shutil.copytree(whole, Path(home) / "data"))
        yield path


NOT_AS_ROOT = """
import contextlib, io, os, sys
from headgate.cli import app

command, whole, asked = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app(["log", command, whole])  # imports modules that only root can read
if os.geteuid() == 0:
    os.seteuid(65534)  # because root can read everything
app(["log", command, asked])
"""


def not_as_root(command: str, whole: Path, asked: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process without permission to read everything."""
    return subprocess.run(
        [sys.executable, "-c", NOT_AS_ROOT, command, str(whole), str(asked)],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_a_directory_without_read_permission_is_refused(
    whole: Path, readable_by_all: Path, command: str
) -> None:
    """The message has the path. Missing permission is not damage."""
    readable_by_all.chmod(0o000)
    finished = not_as_root(command, whole, readable_by_all)
    readable_by_all.chmod(0o755)
    assert finished.returncode == 2
    assert finished.stderr == f"headgate: cannot read {readable_by_all}: Permission denied\n"


def test_an_identity_without_read_permission_is_no_damaged_one(whole: Path, readable_by_all: Path) -> None:
    """The server does not start with it, but nothing has to be restored."""
    (readable_by_all / "meta.properties").chmod(0o000)
    finished = not_as_root("verify", whole, readable_by_all)
    assert finished.returncode == 1
    assert "error  meta.properties: it cannot be read: Permission denied" in finished.stdout
    assert "Check the permissions, and the disk." in finished.stdout


def test_a_segment_without_read_permission_is_an_error_and_the_others_are_checked(
    whole: Path, readable_by_all: Path
) -> None:
    """The check reports that it is incomplete."""
    (readable_by_all / LAST).chmod(0o000)
    finished = not_as_root("verify", whole, readable_by_all)
    assert finished.returncode == 1
    assert f"error  {LAST}: it cannot be read: Permission denied" in finished.stdout
    assert "3 written partitions, 7 segments" in finished.stdout


def test_the_error_for_an_unknown_partition_suggests_a_name(data_dir: Path) -> None:
    """The most similar name is suggested. A partition without data has another message."""
    assert "did you mean flights-0?" in headgate("dump", data_dir, "--partition", "flight-0").stderr
    assert "did you mean flights?" in headgate("dump", data_dir, "--topic", "flihgts").stderr
    beyond = "flights has 2 partitions, numbered from 0"
    assert (
        f"there is no partition called flights-9: {beyond}"
        in headgate("dump", data_dir, "--partition", "flights-9").stderr
    )
    assert f"has no log flights-9; {beyond}" in headgate("mend", data_dir, "--partition", "flights-9").stderr
    shutil.rmtree(data_dir / "flights-1")
    finished = headgate("dump", data_dir, "--partition", "flights-1")
    assert (finished.exit_code, "nothing was ever written to it" in finished.stderr) == (2, True)
    assert headgate("dump", data_dir, "--partition", "a-0", "--topic", "a").exit_code == 2


@pytest.mark.parametrize("option", ["--records", "--keys", "--values", "--limit=0", "--from-offset=1"])
def test_options_for_records_need_a_partition_or_topic(data_dir: Path, option: str) -> None:
    """They are refused without --partition or --topic."""
    finished = headgate("dump", data_dir, option)
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert "--partition TOPIC-N or --topic TOPIC is expected" in finished.stderr


# dump.


def test_the_topics_of_a_directory_are_listed(data_dir: Path) -> None:
    """Names, ids and settings, and offsets and bytes of written partitions, as tables and as JSON."""
    dumped = as_json("dump", data_dir)
    assert {"data_dir", "cluster_id", "leader_epoch", "is_running", "was_closed_well"} <= dumped.keys()
    assert (dumped["leader_epoch"], dumped["is_running"], dumped["was_closed_well"]) == (1, False, True)
    offsets, flights = dumped["topics"]
    assert (offsets["name"], offsets["is_internal"]) == ("__consumer_offsets", True)
    assert (flights["name"], flights["partition_count"]) == ("flights", 2)
    assert flights["topic_id"] == "ZmZmZmZmZmZmZmZmZmZmZg"
    assert flights["configs"] == {"segment.bytes": "3000", "index.interval.bytes": "300"}
    first, second = flights["written_partitions"]
    size = sum(path.stat().st_size for path in (data_dir / FLIGHTS).glob("*.log"))
    assert first == {
        "partition": 0,
        "log_start_offset": 30,
        "log_end_offset": 240,
        "bytes": size,
        "segments": 5,
        "tail_problem": None,
    }
    assert (second["log_start_offset"], second["log_end_offset"]) == (0, 9)
    table = [line.split() for line in process("dump", data_dir).stdout.splitlines()]
    (row,) = [cells for cells in table if cells[:1] == ["flights"]]
    assert (row[1], row[-1].endswith(",segment.bytes=3000")) == (flights["topic_id"], True)
    assert [FLIGHTS, "30", "240", str(size), "5", "-"] in table  # no name is cut, however narrow the terminal


def test_a_partition_is_dumped_batch_by_batch_in_kafkas_format(data_dir: Path) -> None:
    """Segments, then a line for each batch; with --keys and --values a line for each record."""
    lines = headgate("dump", data_dir, "--partition", FLIGHTS, "--from-offset", "121", "--limit", "1").stdout
    header, dumping, starting, batch, more = lines.splitlines()
    assert header.startswith("flights-0: offsets 30 up to 240, ")
    assert dumping == f"Dumping {data_dir / FLIGHTS}/{99:020d}.log"
    assert starting == "Log starting offset: 99"
    assert batch.startswith(
        "baseOffset: 120 lastOffset: 122 count: 3 baseSequence: 120 lastSequence: 122 producerId: 7 "
        "producerEpoch: 0 partitionLeaderEpoch: 1 isTransactional: false isControl: false deleteHorizonMs: "
        "OptionalLong.empty position: "
    )
    assert batch.endswith("isvalid: true")
    assert "--limit" in more
    options = ("--partition", FLIGHTS, "--from-offset", "121", "--limit", "1", "--keys", "--values")
    record = headgate("dump", data_dir, *options).stdout.splitlines()[4]
    assert record.startswith(
        "| offset: 121 CreateTime: 1750000000401 keySize: 5 valueSize: 75 sequence: 121 "
    )
    assert " key: key 1 payload: value 1 of 40, xxx" in record


def test_a_partition_as_json_is_one_object(data_dir: Path) -> None:
    """Every name is always present, and batches have their positions."""
    (partition,) = as_json("dump", data_dir, "--partition", FLIGHTS)["partitions"]
    assert [segment["base_offset"] for segment in partition["segments"]] == [0, 48, 99, 150, 195]
    assert [segment["next_offset"] for segment in partition["segments"]] == [48, 99, 150, 195, 240]
    batches = partition["batches"]
    assert [batch["base_offset"] for batch in batches] == list(range(0, 240, 3))
    assert {batch["codec"] for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert all(batch["crc_ok"] for batch in batches)
    assert (partition["stopped_at"], partition["is_limit_reached"]) == (None, False)
    (partition,) = as_json("dump", data_dir, "--partition", FLIGHTS, "--values", "--limit", "4")["partitions"]
    records = [record for batch in partition["batches"] for record in batch["records"]]
    assert [record["offset"] for record in records] == [0, 1, 2, 3]
    assert records[3]["value"]["data"].startswith("value 0 of 1,")
    assert partition["is_limit_reached"]


def test_the_coordinators_records_are_explained(data_dir: Path) -> None:
    """Commits, groups with their members, tombstones, and unknown records."""
    lines = headgate("dump", data_dir, "--topic", "__consumer_offsets", "--records").stdout
    for words in (
        '"billing" is at 5 in flights-0, leader epoch 3, metadata "by hand", committed 2025-06-15T',
        'consumer group "billing" is in generation 4 with 1 member, protocol range, leader m-1',
        'tombstone: "billing" has no offset in flights-1',
        "a record of key type 2000, which this version does not know",
        'tombstone: group "old" was removed',
    ):
        assert f"meaning: {words}" in lines
    (partition,) = as_json("dump", data_dir, "--partition", OFFSETS, "--records")["partitions"]
    meanings = [record["meaning"] for batch in partition["batches"] for record in batch["records"]]
    assert [meaning["kind"] for meaning in meanings] == [
        "offset-commit",
        "offset-commit",
        "group-metadata",
        "offset-tombstone",
        "unknown",
        "group-tombstone",
    ]
    assert (meanings[0]["group"], meanings[0]["topic"], meanings[0]["partition"]) == ("billing", "flights", 0)
    assert (meanings[0]["offset"], meanings[0]["metadata"]) == (5, "by hand")
    assert meanings[2]["members"][0]["client_host"] == "/127.0.0.1"


def test_a_dump_stops_at_an_incomplete_tail_and_reports_it(data_dir: Path) -> None:
    """Whole batches are printed; the bytes of the tail are counted."""
    path = data_dir / LAST
    os.truncate(path, path.stat().st_size - 5)
    lines = headgate("dump", data_dir, "--partition", FLIGHTS).stdout.splitlines()
    assert lines[-1].startswith(f"Incomplete tail: {LAST.partition('/')[2]} at position")
    assert "`headgate log verify` tells whether" in lines[-1]  # of a log that was closed cleanly it is damage
    (partition,) = as_json("dump", data_dir, "--partition", FLIGHTS)["partitions"]
    assert partition["log_end_offset"] == 237
    assert partition["stopped_at"]["is_tail"]
    assert partition["stopped_at"]["position"] + partition["stopped_at"]["bytes"] == path.stat().st_size


def test_a_dump_that_stops_within_a_log_names_no_tail(data_dir: Path) -> None:
    """Whole batches follow: nobody is writing there."""
    path = data_dir / LAST
    data = bytearray(path.read_bytes())
    data[9] ^= 0x40  # of the length
    path.write_bytes(bytes(data))
    lines = headgate("dump", data_dir, "--partition", FLIGHTS).stdout.splitlines()
    assert lines[-1].startswith(f"Stopped: {Path(LAST).name} at position 0, ")


def test_a_running_server_is_dumped_and_checked(tmp_path: Path) -> None:
    """The commands neither wait for the server nor disturb it."""
    with run({"offsets.topic.num.partitions": "1"}, data_dir=tmp_path / "data") as broker:
        address: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("flights", 1, 1)])["flights"].result(timeout=30)
        consumer = Consumer({**address, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("flights", 0, 9)], asynchronous=False)
        consumer.close()
        lines = headgate("dump", broker.data_dir, "--partition", OFFSETS, "--records").stdout
        assert as_json("dump", broker.data_dir)["is_running"]
        assert '"billing" is at 9 in flights-0' in lines
        assert headgate("verify", broker.data_dir).exit_code == 0


@pytest.mark.skipif(
    shutil.which("java") is None or not list(JARS.glob("kafka-tools-*.jar")),
    reason="no Java, or Apache Kafka is not fetched (make kafka)",
)
def test_the_lines_equal_those_of_kafkas_tool(data_dir: Path) -> None:
    """kafka-dump-log.sh prints the same fields of every batch and record of the log."""
    log = data_dir / FLIGHTS / f"{99:020d}.log"
    kafkas = subprocess.run(
        [
            *("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"),
            *("org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(log)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert kafkas.returncode == 0, kafkas.stderr
    theirs = [line for line in kafkas.stdout.splitlines() if line.startswith(("baseOffset:", "| offset:"))]
    ours = headgate(
        "dump", data_dir, "--partition", FLIGHTS, "--from-offset", "99", "--keys", "--values"
    ).stdout.splitlines()
    assert len(theirs) > 60
    assert [line for line in ours if line.startswith(("baseOffset:", "| offset:"))][: len(theirs)] == theirs


# verify.


def test_an_undamaged_directory_has_exit_code_0(data_dir: Path) -> None:
    """A line has the counts of what was checked. Notes do not change the exit code."""
    finished = process("verify", data_dir)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.splitlines()[-1].startswith("0 errors, 1 note in 2 topics, 3 written partitions, ")
    report = as_json("verify", data_dir)
    assert (report["errors"], report["notes"]) == (0, 1)
    assert report["looked_at"]["segments"] == 8


def test_damage_has_exit_code_1_a_position_and_advice(data_dir: Path) -> None:
    """As lines and as JSON."""
    path = data_dir / LAST
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    finished = process("verify", data_dir)
    assert finished.returncode == 1
    error, advice, summary = finished.stdout.splitlines()[-3:]
    assert error.startswith(f"error  {LAST}, byte 0: the CRC is 0x")
    assert advice.startswith("       ")
    assert summary.startswith("1 error, 1 note in ")
    report = json.loads(process("verify", data_dir, "--output", "json").stdout)
    (found,) = [found for found in report["findings"] if found["severity"] == "error"]
    assert found.keys() == {"severity", "file", "position", "what", "next_step"}
    assert (found["file"], found["position"]) == (LAST, 0)


# mend.


def test_mending_is_shown_first_and_executed_on_request(data_dir: Path) -> None:
    """Both name the file, the offsets that are lost and the next step; afterwards nothing is damaged."""
    path = data_dir / LAST
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    finished = process("mend", data_dir)
    assert (finished.returncode, finished.stderr) == (0, "")
    loss, lost, step = finished.stdout.splitlines()
    assert loss == f"{LAST}, byte 0: the checksum of the batch is wrong"
    assert lost.startswith("       offsets 195 to 197 (3 offsets) have no record any more; ")
    assert step == "Nothing was changed. Copy the directory, then run it again with --execute."
    assert path.read_bytes() == data
    finished = process("mend", data_dir, "--partition", FLIGHTS, "--execute")
    assert (finished.returncode, finished.stdout.splitlines()[:2]) == (0, [loss, lost])
    assert finished.stdout.splitlines()[2:] == [f"Mended 1 log. Check: headgate log verify {data_dir}"]
    report = as_json("verify", data_dir)
    assert report["errors"] == 0
    assert "the records from 195 to 197 were lost" in [one["what"] for one in report["findings"]]
    finished = process("mend", data_dir)
    assert (finished.returncode, finished.stdout) == (0, "Nothing is damaged.\n")


def test_mending_as_json_has_every_loss(data_dir: Path) -> None:
    """By partition; sizes in bytes."""
    path = data_dir / LAST
    size = path.stat().st_size
    path.write_bytes(b"")
    (log,) = as_json("mend", data_dir)["logs"]
    assert log.keys() == {"partition", "problem", "is_mended", "losses"}
    assert (log["partition"], log["problem"]) == (FLIGHTS, None)
    (loss,) = log["losses"]
    assert (loss["first_offset"], loss["dropped_bytes"]) == (195, 0)
    assert loss["end_offset"] > 195
    assert size


def test_what_cannot_be_mended_has_exit_code_1(data_dir: Path) -> None:
    """A small file that decides which segments there are. Other logs are mended."""
    (data_dir / FLIGHTS / "headgate.compaction").write_bytes(b"nothing")
    path = data_dir / OFFSETS / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    finished = headgate("mend", data_dir, "--execute")
    assert finished.exit_code == 1
    assert f"{FLIGHTS}: it is not mended: headgate.compaction cannot be read; restore it" in finished.stdout
    assert "Mended 1 log." in finished.stdout


def test_a_log_that_is_gone_is_not_called_undamaged(data_dir: Path) -> None:
    """Nothing of it is left to be mended."""
    shutil.rmtree(data_dir / FLIGHTS)
    finished = headgate("mend", data_dir, "--execute")
    assert finished.exit_code == 1
    assert finished.stdout.splitlines() == [
        f"{FLIGHTS}: it is not mended: the directory of this partition is missing: it was there when the "
        "server stopped",
        "Nothing was changed. Restore the data directory from a backup.",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_mended_log_belongs_to_the_user_of_the_server(data_dir: Path) -> None:
    """Whoever mends it. The modes stay, too."""
    path = data_dir / LAST
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    path.chmod(0o600)
    for one in (data_dir / FLIGHTS, *(data_dir / FLIGHTS).iterdir()):
        os.chown(one, 65534, 65534)
    assert headgate("mend", data_dir, "--execute").exit_code == 0
    assert {one.stat().st_uid for one in (data_dir / FLIGHTS).iterdir()} == {65534}
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_is_mended_under_a_running_server(data_dir: Path) -> None:
    """Nor in a log that is not there."""
    with run(data_dir=data_dir):
        finished = headgate("mend", data_dir, "--execute")
    assert (finished.exit_code, finished.stderr) == (
        2,
        f"headgate: {data_dir} is in use by a server: stop it first\n",
    )
    finished = headgate("mend", data_dir, "--partition", "flihgts-0")
    assert (finished.exit_code, finished.stderr) == (
        2,
        f"headgate: {data_dir} has no log flihgts-0; did you mean flights-0?\n",
    )


def test_clients_read_a_mended_log_to_its_end(data_dir: Path) -> None:
    """Over the offsets that have no record."""
    path = data_dir / LAST
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    assert headgate("mend", data_dir, "--execute").exit_code == 0
    with run(data_dir=data_dir) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "any",
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("flights", 0, 190)])
        offsets = []
        while (message := consumer.poll(20)) is not None and not message.error():
            offsets.append(message.offset())
        consumer.close()
    assert offsets[:7] == [190, 191, 192, 193, 194, 198, 199]

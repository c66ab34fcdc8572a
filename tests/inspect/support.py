"""A small data directory with files of all kinds, written by the broker's own code."""

from __future__ import annotations

from pathlib import Path

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, MemberId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.inspect.findings import Finding, Severity
from headgate.inspect.verify import verify
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.log.log import Log
from headgate.log.state_file import StateFileWriter, bind
from headgate.records import (
    GroupMember,
    GroupMetadata,
    GroupTombstone,
    OffsetCommit,
    OffsetTombstone,
    UnknownRecord,
    encode,
)
from headgate.records.runs import RunPlace
from headgate.server.identity import cluster_id
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

NOW = Millis(1_750_000_000_000)
FLIGHTS = "flights-0"
OFFSETS = f"{GROUP_OFFSETS_TOPIC}-0"
SMALL_SEGMENTS = {"segment.bytes": "3000", "index.interval.bytes": "300"}


def errors(data_dir: Path) -> list[Finding]:
    """Return the errors of a check."""
    return [found for found in verify(data_dir).findings.listed if found.severity is Severity.ERROR]


def notes(data_dir: Path) -> list[Finding]:
    """Return the notes of a check."""
    return [found for found in verify(data_dir).findings.listed if found.severity is Severity.NOTE]


def open_topics(data_dir: Path) -> Topics:
    """Open the topics of a directory, like a start of the server."""
    return Topics.open(OsFileSystem(), data_dir, Settings(), NOW)


def produce(topic: Topic, first: int, count: int, partition: int = 0) -> None:
    """Append batches of an idempotent producer with alternating codecs, and sync them."""
    log = topic.partition(partition).log
    for number in range(first, first + count):
        timestamp = NOW + number * 10
        records = [
            Record(b"key %d" % n, b"value %d of %d, %s" % (n, number, b"x" * 60), timestamp + n)
            for n in range(3)
        ]
        batch = encode_batch(
            records, producer_id=7, producer_epoch=0, base_sequence=3 * number, codec=number % 5
        )
        assert topic.partition(partition).append(batch, NOW).error == ErrorCode.NONE
    request = log.begin_sync()
    request.run()
    log.complete_sync(request)


def commit_of(partition: int, offset: int) -> OffsetCommit:
    """Return a committed offset of the group `billing`."""
    return OffsetCommit(GroupId("billing"), TopicName("flights"), partition, offset, 3, "by hand", NOW)


def coordinator_batch(*records: object, run: tuple[int, int, int] | None = None) -> bytearray:
    """Return a batch of the coordinator. `run` is the place of its first record in a run."""
    placed = []
    for at, record in enumerate(records):
        headers = () if run is None else (RunPlace(run[0], run[1] + at, run[2]).header(),)
        placed.append(Record(*encode(record), NOW, headers))  # type: ignore[arg-type]
    return encode_batch(placed)


def group() -> GroupMetadata:
    """Return the group `billing` with one member."""
    member = GroupMember(MemberId("m-1"), None, "client", "/127.0.0.1", 60_000, 45_000, b"sub", b"ass")
    return GroupMetadata(GroupId("billing"), "consumer", 4, "range", MemberId("m-1"), Millis(NOW), (member,))


def build(data_dir: Path) -> Path:
    """Build a directory in two runs of a server, with two leader epochs: a crash, then a clean stop."""
    data_dir.mkdir(parents=True)
    topics = open_topics(data_dir)
    cluster_id(OsFileSystem(), topics, NOW)
    wanted = [
        NewTopic("flights", TopicId(b"f" * 16), 2, SMALL_SEGMENTS),
        NewTopic("gone", TopicId(b"g" * 16), 1),
        NewTopic(GROUP_OFFSETS_TOPIC, TopicId(b"o" * 16), 1, {"cleanup.policy": "compact"}),
    ]
    flights, gone, offsets = (found for found in topics.create_all(wanted, NOW) if isinstance(found, Topic))
    produce(flights, 0, 40)
    produce(gone, 0, 1)
    topics.delete(gone, NOW)
    coordinator = offsets.partition(0)
    coordinator.append_internal(
        [coordinator_batch(commit_of(0, 5), commit_of(1, 6)), coordinator_batch(group())]
    )
    for partition in (flights.partition(0), coordinator):
        partition.log.close_files()

    topics = open_topics(data_dir)
    flights, offsets = topics.by_name("flights"), topics.by_name(GROUP_OFFSETS_TOPIC)  # type: ignore[assignment]
    produce(flights, 40, 40)
    produce(flights, 0, 3, partition=1)
    flights.partition(0).delete_records(30)
    coordinator = offsets.partition(0)
    coordinator.append_internal(
        [
            coordinator_batch(OffsetTombstone(GroupId("billing"), TopicName("flights"), 1)),
            coordinator_batch(UnknownRecord(2000, b"\x07\xd0new", b"value")),
            coordinator_batch(GroupTombstone(GroupId("old"))),
        ]
    )
    write_state_file(coordinator.log)
    topics.close()
    return data_dir


def write_state_file(log: Log) -> None:
    """Write a checkpoint at the end of the coordinator's log."""
    request = log.begin_sync()
    request.run()
    log.complete_sync(request)
    writer = StateFileWriter(OsFileSystem(), log.directory)
    writer.begin()
    writer.add("rows", bytes(range(100)))
    writer.add("groups", b"billing")
    writer.finish(bind(log, b"o" * 16, 0, log.log_end_offset, log.log_end_offset), {"offsets": 1})

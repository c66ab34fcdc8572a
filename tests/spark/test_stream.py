"""Streams that are consumer groups, in Spark, against a real server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException

import headgate
import headgate.spark
from headgate.admin import Admin, TopicPartition
from headgate.client.groups import MemberDescription
from headgate.domain.ids import TopicName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.timeout(120)

SETTINGS = {"group.consumer.heartbeat.interval.ms": "200", "group.consumer.min.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="module")
def broker() -> Iterator[headgate.Broker]:
    """A server."""
    with headgate.run(SETTINGS) as running:
        yield running


def create(broker: headgate.Broker, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(10)


def produce(broker: headgate.Broker, topic: str, partition: int, count: int, first: int = 0) -> None:
    """Produce numbered records."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for number in range(first, first + count):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(10) == 0


class Stream:
    """A stream of one topic to Parquet files."""

    def __init__(self, spark: SparkSession, broker: headgate.Broker, topic: str, directory: Path) -> None:
        headgate.spark.register(spark)
        self.spark, self.broker, self.topic = spark, broker, topic
        self.group = f"g-{topic}"
        self.checkpoint, self.rows = directory / "checkpoint", directory / "rows"
        self.query: StreamingQuery | None = None

    def start(self, **options: Any) -> None:
        """Start the query."""
        given = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "group.id": self.group,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "includeEpoch": "true",
            "minPartitions": "1",
            **options,
        }
        trigger = given.pop("trigger", None)
        frame = self.spark.readStream.format("headgate").options(**given).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        if trigger:
            writer = writer.trigger(**trigger)
        self.query = writer.start(str(self.rows))

    def stop(self) -> None:
        """Stop the query."""
        if self.query is not None:
            self.query.stop()
            self.query = None

    def found(self) -> list[tuple[int, int, str]]:
        """Return partition, offset and value of the delivered rows, sorted."""
        frame = self.spark.read.schema("partition int, offset long, value string").parquet(str(self.rows))
        return sorted((row.partition, row.offset, row.value) for row in frame.collect())

    def deliveries(self) -> int:
        """Return the number of different rows, with their epochs."""
        frame = self.spark.read.schema("partition int, offset long, epoch int").parquet(str(self.rows))
        return frame.distinct().count()

    def run_now(self) -> None:
        """Read what there is now, and end."""
        self.start(trigger={"availableNow": True}, maxOffsetsPerTrigger="9")
        assert self.query is not None
        assert self.query.awaitTermination(60)
        self.stop()

    def committed(self) -> dict[int, int]:
        """Return the group's offsets."""
        with Admin(self.broker.bootstrap_servers) as admin:
            return {at.partition: each.offset for at, each in admin.committed_offsets(self.group).items()}

    def members(self) -> tuple[MemberDescription, ...]:
        """Return the group's members."""
        with Admin(self.broker.bootstrap_servers) as admin:
            group = admin.describe_group(self.group)
            return () if group is None else group.members

    def partition(self, index: int) -> TopicPartition:
        """Return a partition of the topic."""
        return TopicPartition(TopicName(self.topic), index)

    def wait_for_commits(self, expected: dict[int, int]) -> None:
        """Wait until the group has these offsets."""
        wait(lambda: self.committed() == expected, self.committed, self.query)


def wait(holds: Callable[[], bool], shown: Callable[[], object], query: StreamingQuery | None) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + 40
    while not holds():
        if query is not None and query.exception() is not None:
            raise AssertionError(str(query.exception()))
        assert time.monotonic() < deadline, shown()
        time.sleep(0.05)


@pytest.fixture
def stream(
    spark: SparkSession, broker: headgate.Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Stream]:
    """A stream over a topic of two partitions with ten records each."""
    topic = request.node.name.removeprefix("test_")[:40]
    create(broker, topic, 2)
    for partition in (0, 1):
        produce(broker, topic, partition, 10)
    made = Stream(spark, broker, topic, tmp_path)
    yield made
    made.stop()


def rows(*counts: int) -> list[tuple[int, int, str]]:
    """Return the rows of partitions with these numbers of records."""
    return [(partition, each, str(each)) for partition, count in enumerate(counts) for each in range(count)]


def test_a_stream_is_a_group_with_lag_and_one_member(stream: Stream) -> None:
    """What is delivered is committed within one trigger, the last batch too; a stop empties the group."""
    stream.start()
    stream.wait_for_commits({0: 10, 1: 10})
    (member,) = stream.members()
    assert set(member.assignment or ()) == {stream.partition(0), stream.partition(1)}
    stream.stop()
    wait(lambda: not stream.members(), stream.members, None)
    produce(stream.broker, stream.topic, 1, 5, first=10)
    with Admin(stream.broker.bootstrap_servers) as admin:
        assert [each.lag for each in admin.positions(stream.group)] == [0, 5]
    stream.start()
    stream.wait_for_commits({0: 10, 1: 15})
    assert stream.found() == rows(10, 15)


def test_a_partition_is_rewound_while_the_stream_runs(stream: Stream) -> None:
    """With one command; its rows are read again once, in a higher epoch; the other partition continues."""
    stream.start()
    stream.wait_for_commits({0: 10, 1: 10})
    with Admin(stream.broker.bootstrap_servers) as admin:
        admin.pause_partitions(stream.group, [stream.partition(0)], reason="test")
        admin.wait_until_paused(stream.group, [stream.partition(0)])
        produce(stream.broker, stream.topic, 0, 3, first=10)
        produce(stream.broker, stream.topic, 1, 3, first=10)
        stream.wait_for_commits({0: 10, 1: 13})
        admin.alter_offsets(stream.group, {stream.partition(0): 4})
        admin.resume_partitions(stream.group, [stream.partition(0)])
    stream.wait_for_commits({0: 13, 1: 13})
    again = [(0, each, str(each)) for each in range(4, 10)]
    assert stream.found() == sorted(rows(13, 13) + again)
    assert stream.deliveries() == len(stream.found())


def test_a_killed_reader_and_a_killed_broker_lose_and_double_nothing(stream: Stream) -> None:
    """The query fails with its reader, and starts again at once in its place; it waits for the broker."""
    stream.start(maxOffsetsPerTrigger="4")
    wait(lambda: any(stream.committed().values()), stream.committed, stream.query)
    os.kill(reader_pid(), signal.SIGKILL)
    assert stream.query is not None
    with pytest.raises(StreamingQueryException):
        stream.query.awaitTermination(40)
    stream.start(maxOffsetsPerTrigger="4")
    stream.broker.kill()
    stream.broker.start()
    produce(stream.broker, stream.topic, 1, 5, first=10)
    stream.wait_for_commits({0: 10, 1: 15})
    assert stream.found() == rows(10, 15)


def test_a_lost_checkpoint_continues_where_the_group_is(stream: Stream, tmp_path: Path) -> None:
    """With the trigger availableNow, which commits its last batch before it ends."""
    stream.run_now()
    assert stream.committed() == {0: 10, 1: 10}
    stream.checkpoint, stream.rows = tmp_path / "another", tmp_path / "more"
    produce(stream.broker, stream.topic, 0, 2, first=10)
    stream.run_now()
    assert stream.committed() == {0: 12, 1: 10}
    assert stream.found() == [(0, 10, "10"), (0, 11, "11")]


def reader_pid() -> int:
    """Return the process of the only stream's reader."""
    found = [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdecimal() and b"python_streaming_source_runner" in command_of(folder)
    ]
    mine = [pid for pid in found if is_descendant(pid, os.getpid())]
    (pid,) = mine
    return pid


def command_of(folder: Path) -> bytes:
    """Return the command line of a process; empty if it has ended."""
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def is_descendant(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another, directly or not."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False

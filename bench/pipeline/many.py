"""Topics of thousands of partitions, one record in each: planned and read, from files and over the wire.

Over the wire the connections that the server got are counted, too. Spark's own Kafka source takes a task and
two connections for each partition, about half a second, so it reads a part of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import headgate.spark
from bench.pipeline.figures import Figure, timed, timed_here
from bench.pipeline.live import START_MS, Server, make_topic
from headgate.log.batch import Record, encode_batch
from headgate.spark.options import parse
from headgate.spark.source import plan

TOPIC = "many"
MOST_OF_KAFKAS_SOURCE = 100


def from_files(spark: SparkSession, directory: Path, partitions: int) -> Iterator[Figure]:
    """Measure a data directory."""
    make_files(directory, partitions)
    count = f"{partitions:,} partitions from files"
    yield timed_here(f"plan {count}", lambda: _planned({"path": str(directory)}, partitions))
    frame = headgate.spark.records(spark, directory, TOPIC, columns="offset")
    yield timed(f"plan and read {count}", lambda: _counted(frame, partitions))


def over_the_wire(spark: SparkSession, server: Server, partitions: int, *, beside: bool) -> Iterator[Figure]:
    """Measure a server's topic, `beside` Spark's own Kafka source."""
    make_topic(server, TOPIC, partitions, partitions)
    servers = {"kafka.bootstrap.servers": server.bootstrap_servers}
    count = f"{partitions:,} partitions over the wire"
    yield from _connecting(server, f"plan {count}", lambda: _planned(servers, partitions))
    frame = headgate.spark.records(spark, server.bootstrap_servers, TOPIC, columns="offset")
    yield from _connecting(server, f"plan and read {count}", lambda: _counted(frame, partitions))
    if beside:
        few = min(partitions, MOST_OF_KAFKAS_SOURCE)
        chosen = json.dumps({TOPIC: list(range(few))})
        of_kafka = spark.read.format("kafka").options(**servers).option("assign", chosen).load()
        what = f"plan and read {few:,} of these, Spark's Kafka source"
        yield from _connecting(server, what, lambda: _counted(of_kafka.select("offset"), few))


def make_files(directory: Path, partitions: int) -> None:
    """Write a data directory with a topic of so many partitions."""
    batch = bytes(encode_batch([Record(b"k", b"v", START_MS)]))
    for partition in range(partitions):
        folder = directory / f"{TOPIC}-{partition}"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}.log").write_bytes(batch)


def _connecting(server: Server, what: str, work: Callable[[], int]) -> Iterator[Figure]:
    before = server.connections_opened()
    figure = timed(what, work)
    yield figure
    yield Figure(what, figure.rows, connections=server.connections_opened() - before)


def _planned(source: dict[str, str], partitions: int) -> int:
    assert plan(parse({**source, "subscribe": TOPIC}))
    return partitions


def _counted(frame: DataFrame, partitions: int) -> int:
    assert frame.count() == partitions
    return partitions

"""A stream that is a consumer group, beside Spark's own Kafka source, on the same topic of the same server.

Each reads the whole topic with the trigger `availableNow` into a sink that does nothing. A short run of each
comes first, so that Spark has compiled what both need.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from pyspark.sql import SparkSession

import headgate.spark
from bench.pipeline.figures import Figure, timed
from bench.pipeline.live import Server, make_topic

PARTITIONS = 8
VALUE_BYTES = 100
TIMEOUT_S = 900
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""Those of Spark's Kafka source."""


def streams(spark: SparkSession, server: Server, records: int, *, beside: bool) -> Iterator[Figure]:
    """Measure streams of so many records, `beside` Spark's own Kafka source."""
    headgate.spark.register(spark)
    few = make_topic(server, "few", PARTITIONS, max(records // 10, PARTITIONS), VALUE_BYTES)
    all_of_them = make_topic(server, "streamed", PARTITIONS, records, VALUE_BYTES)
    for name in ("headgate", *(["kafka"] if beside else [])):
        _stream(spark, server, name, "few", few)
        yield timed(
            f'readStream.format("{name}"), records of {VALUE_BYTES} bytes',
            lambda name=name: _stream(spark, server, name, "streamed", all_of_them),  # type: ignore[misc]
        )


def _stream(spark: SparkSession, server: Server, name: str, topic: str, records: int) -> int:
    """Read a topic from its start to its end; return the number of records, which must be `records`."""
    options = {
        "kafka.bootstrap.servers": server.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    if name == "headgate":
        options |= {"group.id": f"of-{topic}", "columns": ",".join(COLUMNS)}
    frame = spark.readStream.format(name).options(**options).load()
    with tempfile.TemporaryDirectory(prefix="headgate-checkpoint-") as checkpoint:
        writer = frame.select(*COLUMNS).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S), f"{name} did not end within {TIMEOUT_S} s"
        read = sum(progress.numInputRows for progress in query.recentProgress)
    assert read == records, f"{name} read {read} of {records} records"
    return records

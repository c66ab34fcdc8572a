"""A Spark stream that is a consumer group: `python -m demo.lake ADDRESS`, in a process of its own.

It prints `ready` when the session is up, starts the stream at the line `go` on its standard input, and at the
line `stop` ends it, counts the joined flights of `demo.joining`, writes the report on all groups of the
broker, and prints as JSON what it found.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.query import StreamingQuery

import headgate.spark
from demo.analysis import session
from demo.story import DIRECTORY, FLIGHTS_PER_BATCH, JOINED, LAKE, REPORT, TOPIC
from headgate.fleet.report import gather, page

ROWS = DIRECTORY / "lake"


def start(spark: SparkSession, address: str) -> StreamingQuery:
    """Start the stream of all flights to Parquet files."""
    headgate.spark.register(spark)
    options: dict[str, str | int] = {
        "kafka.bootstrap.servers": address,
        "group.id": LAKE,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": FLIGHTS_PER_BATCH,
        "columns": "partition,offset,key,epoch",
    }
    flights = spark.readStream.format("headgate").options(**options).load()
    written: StreamingQuery = flights.writeStream.start(
        str(ROWS), format="parquet", checkpointLocation=str(DIRECTORY / "lake-checkpoint")
    )
    return written


def summary(spark: SparkSession) -> dict[str, object]:
    """Return what the files contain: rows, flights, and the offsets that came more than once."""
    found = spark.read.parquet(str(ROWS)).select("partition", "offset", "epoch").cache()
    each = found.groupBy("partition", "offset").agg(
        F.count("*").alias("times"), F.countDistinct("epoch").alias("epochs")
    )
    again = each.where("times > 1").groupBy("partition")
    rows = again.agg(
        F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("count")
    )
    return {
        "rows": found.count(),
        "flights": each.count(),
        "same_epoch": each.where("times > epochs").count(),
        "again": [row.asDict() for row in rows.collect()],
    }


def both_sides(spark: SparkSession, address: str) -> dict[str, int]:
    """Count the flights, and the joined ones: written, committed, and different."""

    def read(topic: str, level: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": address, "subscribe": topic, "isolationLevel": level}
        return spark.read.format("headgate").options(**options).load()

    joined = read(JOINED, "read_committed")
    flight = F.get_json_object(F.col("value").cast("string"), "$.id")
    return {
        "read": read(TOPIC, "read_committed").count(),
        "written": read(JOINED, "read_uncommitted").count(),
        "joined": joined.count(),
        "joined_flights": joined.select(flight).distinct().count(),
    }


def report_on(spark: SparkSession, address: str) -> list[str]:
    """Write the report on all groups of the broker, and return their names."""
    found = gather(spark, address)
    REPORT.write_text(page(found), encoding="utf-8")
    return [each.facts.group_id for each in found.audited]


def main(address: str) -> None:
    """Do what the lines of the standard input say."""
    spark = session()
    try:
        print("ready", flush=True)
        query: StreamingQuery | None = None
        for line in sys.stdin:
            if line.strip() == "go":
                query = start(spark, address)
            elif query is not None:
                query.stop()
                found = {**summary(spark), **both_sides(spark, address)}
                found["reported"] = report_on(spark, address)
                print(json.dumps(found), flush=True)
                break
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The data sources in Spark: the result of `spark.read`, and its errors."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql.pandas.types import to_arrow_schema
from tests.spark.coordinator_records import COMMIT, GROUP
from tests.spark.support import collect, numbered, write_segment

import headgate.spark
from headgate.log.batch import Record, encode_batch
from headgate.records import encode
from headgate.spark import schemas
from headgate.spark.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_000_000_000
SCHEMAS = {
    name: value for name, value in vars(schemas).items() if name.isupper() and hasattr(value, "fields")
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with a topic with headers and a compressed batch, and the coordinator's log."""
    header = Record(b"a", None, NOW, ((b"trace", b"1"), (b"none", None)))
    write_segment(tmp_path, "t", 0, [numbered(3), encode_batch([header], base_offset=3, codec=4)])
    write_segment(tmp_path, "t", 1, [numbered(2)])
    log = [Record(*encode(COMMIT), NOW), Record(*encode(GROUP), NOW)]
    write_segment(tmp_path, "__consumer_offsets", 5, [encode_batch(log)])
    return tmp_path


@pytest.mark.parametrize("name", SCHEMAS)
def test_our_arrow_schemas_are_the_ones_spark_asks_for(name: str) -> None:
    """Spark refuses a batch with any difference in the schema."""
    assert arrow_schema(SCHEMAS[name]).equals(to_arrow_schema(SCHEMAS[name], timezone="UTC"))


def test_a_topic_is_read_with_the_columns_of_the_kafka_connector(spark: SparkSession, data: Path) -> None:
    """With `format("headgate")` and options alone, nested headers included."""
    headgate.spark.register(spark)
    frame = spark.read.format("headgate").option("topic", "t").load(str(data))
    assert frame.schema == schemas.RECORDS
    rows = collect(frame.orderBy("partition", "offset"))
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (1, 1),
    ]
    assert rows[3] == {
        "topic": "t",
        "partition": 0,
        "offset": 3,
        "timestamp": datetime.datetime.fromtimestamp(NOW / 1000),
        "timestampType": 0,
        "key": bytearray(b"a"),
        "value": None,
        "headers": [
            {"key": "trace", "value": bytearray(b"1")},
            {"key": "none", "value": None},
        ],
    }


def test_a_frame_keeps_its_extent_and_a_new_one_has_the_records_since(
    spark: SparkSession, data: Path
) -> None:
    """Spark plans a read once for each DataFrame, as docs/spark.md says."""
    frame = headgate.spark.records(spark, data, "t", columns="offset")
    assert len(collect(frame)) == 6
    write_segment(data, "t", 1, [numbered(3, 2)], base_offset=2)
    assert len(collect(frame.select("offset"))) == 6
    assert len(collect(headgate.spark.records(spark, data, "t", columns="offset"))) == 9


def test_columns_chosen_are_the_columns_given(spark: SparkSession, data: Path) -> None:
    """In the order of their names, and nothing else is decoded."""
    frame = headgate.spark.records(spark, data, "t", columns="value,partition", minPartitions=1)
    assert frame.columns == ["value", "partition"]
    assert frame.rdd.getNumPartitions() == 1
    assert frame.where("partition = 1").count() == 2


def test_the_typed_readers_give_their_documented_schemas(spark: SparkSession, data: Path) -> None:
    """Commits in one table, all other records in the other."""
    commits = headgate.spark.offset_commits(spark, data)
    events = headgate.spark.group_events(spark, data)
    assert (commits.schema, events.schema) == (schemas.OFFSET_COMMITS, schemas.GROUP_EVENTS)
    (commit,) = collect(commits)
    assert (commit["log_partition"], commit["log_offset"], commit["committed_offset"]) == (5, 0, 5)
    (event,) = collect(events)
    assert [one["topic"] for one in event["members"][0]["assigned"]] == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"toppic": "t"}, "did you mean 'topic'"),
        ({"topic": "t", "groupId": "g"}, "did you mean 'group.id'"),
        ({"topic": "t", "columns": "ofset"}, "did you mean 'offset'"),
        ({"topic": "nothing"}, "nothing of topic 'nothing'"),
    ],
)
def test_what_is_wrong_is_said_by_spark_in_our_words(
    spark: SparkSession, data: Path, options: dict[str, Any], message: str
) -> None:
    """At the latest at the first action; the message crosses the processes."""
    headgate.spark.register(spark)
    with pytest.raises(AnalysisException, match=message) as caught:
        spark.read.format("headgate").options(**options).load(str(data)).count()
    assert message in first_lines(caught.value)


def test_a_broker_that_is_away_is_told_without_a_stack(spark: SparkSession) -> None:
    """In the first lines, as what is wrong with the options."""
    with pytest.raises(AnalysisException) as caught:
        headgate.spark.offset_commits(spark, "127.0.0.1:1", timeout="1s").count()
    assert "NoNodeReachable: no connection to 127.0.0.1:1" in first_lines(caught.value)


@pytest.mark.parametrize(
    ("of_format", "message"),
    [
        ("headgate", "option group.id is missing"),
        ("headgate_offset_commits", "headgate_offset_commits is for spark.read"),
    ],
)
@pytest.mark.parametrize("trigger", ["processingTime", "availableNow"])
def test_what_is_no_stream_is_refused_when_it_starts(
    spark: SparkSession, of_format: str, message: str, trigger: str
) -> None:
    """Before a broker is asked; nothing of PySpark's own stands in place of the reason."""
    headgate.spark.register(spark)
    source = spark.readStream.format(of_format).option("kafka.bootstrap.servers", "127.0.0.1:1")
    rows = (source if of_format != "headgate" else source.option("subscribe", "t")).load()
    when: dict[str, Any] = {trigger: True if trigger == "availableNow" else "1 second"}
    query = rows.writeStream.format("noop").trigger(**when).start()
    with pytest.raises(StreamingQueryException, match=message) as caught:
        query.awaitTermination()
    assert "UnboundLocalError" not in str(caught.value)


@pytest.mark.parametrize("of_format", ["headgate", "headgate_offset_commits"])
def test_a_write_is_refused_and_spark_s_own_format_named(
    spark: SparkSession, data: Path, of_format: str
) -> None:
    """Headgate's formats only read; the options are those of Spark's own format, which a read has not got."""
    headgate.spark.register(spark)
    writer = spark.range(1).write.format(of_format).options(topic="t", path=str(data)).mode("append")
    with pytest.raises(AnalysisException, match="format kafka"):
        writer.save()


def first_lines(error: Exception) -> str:
    """Return what a user sees of a stack without scrolling."""
    return "\n".join(str(error).splitlines()[:5])


def test_a_corrupt_batch_fails_the_job_and_can_be_listed(spark: SparkSession, data: Path) -> None:
    """The job's error has the file and the position; the table of corruptions has the same."""
    file = data / "t-1" / f"{0:020}.log"
    spoiled = bytearray(file.read_bytes())
    spoiled[-1] ^= 1
    file.write_bytes(spoiled)
    with pytest.raises(PythonException, match=rf"{file}: position 0 \(offset 0\): CRC"):
        headgate.spark.records(spark, data, "t").count()
    (row,) = collect(headgate.spark.corruptions(spark, data, "t"))
    assert (row["place"], row["position"], row["is_tail"]) == (str(file), 0, False)
    assert headgate.spark.records(spark, data, "t", failOnCorrupt=False).count() == 4

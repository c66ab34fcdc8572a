"""A topic from a running broker has the same records as its files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.spark.support import rows_of

import headgate
from headgate.admin import Admin
from headgate.admin import TopicPartition as Where
from headgate.client.cluster import Cluster
from headgate.client.connection import Connection
from headgate.spark import broker as broker_source
from headgate.spark.landing import land, run_here
from headgate.spark.options import parse
from headgate.spark.plan import MissingData
from headgate.spark.source import OFFSET_COMMITS_VIEW, RECORDS_VIEW, View, ViewReader

TOPIC = "flights"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 400


@pytest.fixture(scope="module")
def running() -> Iterator[headgate.Broker]:
    """Run a broker with a topic of three partitions, by librdkafka in every codec, and one commit."""
    with headgate.run() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(10)
        for codec in CODECS:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec})
            for number in range(COUNT):
                text = f"{codec} {number}"
                producer.produce(TOPIC, text * 5, key=text, partition=number % 3, headers={"codec": codec})
            assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition(TOPIC, 1, 17)], asynchronous=False)
        consumer.close()
        yield broker


def read(broker: headgate.Broker, view: View = RECORDS_VIEW, **options: str) -> list[dict[str, Any]]:
    """Return the rows of a view of the cluster, in order."""
    given = {"bootstrap.servers": broker.bootstrap_servers, "topic": TOPIC, **options}
    reader = ViewReader(view, parse(given))
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: tuple(list(row.values())[:3]))


def test_fetched_records_are_those_in_the_segment_files(running: headgate.Broker) -> None:
    """Every codec of a real producer, every column, from both sources."""
    rows = read(running)
    assert rows == rows_of(RECORDS_VIEW, running.data_dir, TOPIC)
    assert len(rows) == COUNT * len(CODECS)
    assert {row["value"].decode() for row in rows} == {
        f"{codec} {number}" * 5 for codec in CODECS for number in range(COUNT)
    }
    assert {row["headers"][0]["value"].decode() for row in rows} == set(CODECS)


def test_a_topic_without_files_is_empty_in_a_directory_too(running: headgate.Broker) -> None:
    """The catalogue has it: nobody used transactions, and a topic was created only."""
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    admin.create_topics([NewTopic("unused", 2, 1)])["unused"].result(10)
    for topic in ("__transaction_state", "unused"):
        assert read(running, topic=topic) == rows_of(RECORDS_VIEW, running.data_dir, topic) == []
    (running.data_dir / "unused-1").symlink_to(running.data_dir / "not-mounted")
    with pytest.raises(MissingData, match="nothing of topic 'unused' in"):  # it may have been written
        rows_of(RECORDS_VIEW, running.data_dir, "unused")
    (running.data_dir / "unused-1").unlink()
    with pytest.raises(MissingData, match=r"nothing of topic 'unsed' in .* \(topics there: .*, unused\)"):
        rows_of(RECORDS_VIEW, running.data_dir, "unsed")


def test_small_answers_and_many_tasks_change_nothing(
    running: headgate.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range of offsets may begin inside a batch, and a response may have a single batch."""
    whole = read(running)
    monkeypatch.setattr(broker_source, "FETCH_BYTES", 1)
    assert read(running, minPartitions="7") == whole


def test_offsets_asked_for_are_exact(running: headgate.Broker) -> None:
    """Start inclusive, end exclusive."""
    rows = read(
        running,
        startingOffsets='{"flights": {"0": 5, "1": 100}}',
        endingOffsets='{"flights": {"0": 9, "1": 101, "2": 0}}',
    )
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 5), (0, 6), (0, 7), (0, 8), (1, 100)]


def test_offsets_that_are_not_there_fail_unless_configured_otherwise(running: headgate.Broker) -> None:
    """As for files."""
    beyond = '{"flights": {"0": 100000}}'
    with pytest.raises(MissingData, match="failOnDataLoss"):
        read(running, endingOffsets=beyond)
    assert read(running, endingOffsets=beyond, failOnDataLoss="false") == read(running)


def test_a_start_behind_the_end_reads_nothing(running: headgate.Broker) -> None:
    """As in Spark's Kafka source; the other partitions are not divided more because of it."""
    starts = '{"flights": {"0": 100000}}'
    expected = [row for row in read(running) if row["partition"] != 0]
    assert read(running, startingOffsets=starts) == expected
    options = parse(
        {"bootstrap.servers": running.bootstrap_servers, "subscribe": TOPIC, "startingOffsets": starts}
    )
    tasks = broker_source.plan(options)
    assert all(len(task.ranges) < 5 for task in tasks if isinstance(task, broker_source.FetchTask))


def test_a_plan_is_read_to_the_end_that_the_log_has_then(running: headgate.Broker) -> None:
    """Spark plans a DataFrame once. An end that was asked for is kept; no open transaction is passed."""
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    admin.create_topics([NewTopic("growing", 2, 1)])["growing"].result(10)

    def append(partition: int, *values: str) -> None:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        for value in values:
            producer.produce("growing", value, partition=partition)
        assert producer.flush(10) == 0

    def planned(**options: str) -> Callable[[], list[str]]:
        given = {"bootstrap.servers": running.bootstrap_servers, "topic": "growing", **options}
        reader = ViewReader(RECORDS_VIEW, parse(given))
        tasks = reader.partitions()
        return lambda: sorted(
            row["value"].decode() for task in tasks for one in reader.read(task) for row in one.to_pylist()
        )

    append(0, "a", "b", "c")
    whole, in_parts = planned(), planned(minPartitions="3")
    committed = planned(isolationLevel="read_committed")
    bounded = planned(endingOffsets='{"growing": {"0": 2, "1": -1}}')
    append(0, "d")
    append(1, "e")
    for to_the_end in whole, in_parts, committed:
        assert to_the_end() == ["a", "b", "c", "d", "e"]
    assert bounded() == ["a", "b", "e"]
    transactional = Producer({"bootstrap.servers": running.bootstrap_servers, "transactional.id": "growing"})
    transactional.init_transactions()
    transactional.begin_transaction()
    transactional.produce("growing", "open", partition=1)
    transactional.flush(10)
    assert whole() == ["a", "b", "c", "d", "e", "open"]
    assert committed() == ["a", "b", "c", "d", "e"]
    transactional.abort_transaction()


def test_records_deleted_since_planning_are_lost_data(
    running: headgate.Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error, or with failOnDataLoss=false the remaining records."""
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    admin.create_topics([NewTopic("short", 1, 1)])["short"].result(10)
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "linger.ms": 0})
    for number in range(20):
        producer.produce("short", str(number))
        producer.flush(10)
    given = {"bootstrap.servers": running.bootstrap_servers, "subscribe": "short", "minPartitions": "1"}
    (strict,) = broker_source.plan(parse(given))
    (lenient,) = broker_source.plan(parse(given | {"failOnDataLoss": "false"}))
    admin.delete_records([TopicPartition("short", 0, 12)])[TopicPartition("short", 0)].result(10)
    with pytest.raises(MissingData, match="begins at offset 12"):
        list(strict.scans())
    offsets = [at for _, scan in lenient.scans() for at in scan.batches.base_offset.tolist()]
    assert offsets == list(range(12, 20))
    assert "skipped" in capsys.readouterr().err


def test_a_task_has_one_connection_and_knows_the_leaders(
    running: headgate.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any number of ranges, and without a metadata request."""
    given = {"bootstrap.servers": running.bootstrap_servers, "subscribe": TOPIC, "minPartitions": "40"}
    tasks = [task for task in broker_source.plan(parse(given)) if isinstance(task, broker_source.FetchTask)]
    ranges = tuple(offsets for task in tasks for offsets in task.ranges)
    leaders = {where: address for task in tasks for where, address in task.leaders.items()}
    assert len(ranges) >= 40
    made: list[str] = []
    connect = Connection.__init__

    def counted(self: Connection, host: str, port: int, *rest: Any) -> None:
        made.append(host)
        connect(self, host, port, *rest)

    monkeypatch.setattr(Connection, "__init__", counted)
    monkeypatch.setattr(Cluster, "learn_leaders", None)
    assert len(list(replace(tasks[0], ranges=ranges, leaders=leaders).scans())) >= 40
    assert len(made) == 1


def test_a_broker_that_restarts_does_not_fail_a_read(running: headgate.Broker) -> None:
    """Requests are retried within the timeout, also while no broker is reachable."""
    given = {"bootstrap.servers": running.bootstrap_servers, "subscribe": TOPIC, "minPartitions": "1"}
    (task,) = broker_source.plan(parse(given))
    found: list[int] = []
    reading = threading.Thread(
        target=lambda: found.extend(sum(scan.batches.record_count.tolist()) for _, scan in task.scans())
    )
    running.stop()
    reading.start()
    time.sleep(0.3)
    running.start()
    reading.join(20)
    assert sum(found) == COUNT * len(CODECS)


def test_a_cluster_is_landed_like_its_files(running: headgate.Broker, tmp_path: Path) -> None:
    """The same rows over the protocol as in the files; the next run finds nothing new but the ends."""
    target = tmp_path / "tables"
    assert land(running.bootstrap_servers, str(target)).rows["offset_commits"] == 1
    found = ds.dataset(target / "offset_commits", format="parquet", partitioning="hive").to_table()
    rows = found.drop_columns(["date"]).to_pylist()
    assert rows == rows_of(OFFSET_COMMITS_VIEW, running.data_dir, "__consumer_offsets")
    again = land(running.bootstrap_servers, str(target)).rows
    assert {name for name, count in again.items() if count} == {"end_offsets", "lag"}


def test_a_lag_is_not_larger_by_what_is_read_while_a_landing_runs(tmp_path: Path) -> None:
    """Ends and commits are of one time, at which the landing began: it may take hours."""
    with headgate.run() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 1)
        place = Where("orders", 0)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

        def go_on(committed: int) -> None:
            for _ in range(10):
                producer.produce("orders", b"x", partition=0)
            assert producer.flush(10) == 0
            admin.alter_offsets("g", {place: committed})

        def while_groups_go_on(tasks: Sequence[Any]) -> list[Any]:
            go_on(19)
            return run_here(tasks)

        go_on(8)
        began = time.time()
        land(broker.bootstrap_servers, str(tmp_path / "tables"), while_groups_go_on)
        landed = ds.dataset(tmp_path / "tables/lag", format="parquet", partitioning="hive").to_table()
        (row,) = landed.to_pylist()
        assert (row["committed_offset"], row["end_offset"], row["lag"]) == (8, 10, 2)
        assert began - 1 <= row["at"].timestamp() <= began + 10
        land(broker.bootstrap_servers, str(tmp_path / "tables"))
        landed = ds.dataset(tmp_path / "tables/lag", format="parquet", partitioning="hive").to_table()
        assert sorted(row["lag"] for row in landed.to_pylist()) == [1, 2]


def test_a_topic_that_is_not_there_is_named_with_those_that_are(running: headgate.Broker) -> None:
    """The error lists the existing topics, and the request does not create the topic."""
    for _ in range(2):
        with pytest.raises(MissingData, match=r"no topic 'flihgts'.*flights"):
            read(running, topic="flihgts")


def test_the_coordinators_log_is_a_topic_like_any_other(running: headgate.Broker) -> None:
    """The one commit, through the cluster and from the files."""
    (row,) = read(running, OFFSET_COMMITS_VIEW, topic="__consumer_offsets")
    assert (row["group_id"], row["topic"], row["partition"], row["committed_offset"]) == ("g", TOPIC, 1, 17)
    assert [row] == rows_of(OFFSET_COMMITS_VIEW, Path(running.data_dir), "__consumer_offsets")

"""Every landed table can be read from the first run on, also one without rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer
from tests.spark.test_landing import Broker, broker, commit, event, rows

from headgate.spark.landing import TABLES, land, offsets_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker"]


@pytest.fixture
def new_cluster() -> Iterator[str]:
    """Run a cluster without a topic of the coordinators, as one of Apache Kafka before its first group.

    It is librdkafka's mock cluster, in this process.
    """
    producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (node,) = producer.list_topics(timeout=10).brokers.values()
    yield f"{node.host}:{node.port}"


def test_a_cluster_without_groups_is_landed(new_cluster: str, tmp_path: Path) -> None:
    """Again and again, until it has some."""
    target = str(tmp_path / "tables")
    for _ in range(2):
        assert not any(land(new_cluster, target, timeout="5s").rows.values())
    assert offsets_now(target).num_rows == 0


def test_a_table_without_rows_is_read_as_an_empty_one(
    spark: SparkSession, broker: Broker, new_cluster: str, tmp_path: Path
) -> None:
    """By Spark and by Arrow, with the columns that it has with rows."""
    empty, full = tmp_path / "empty", tmp_path / "full"
    land(new_cluster, str(empty), timeout="5s", is_sampling=False)
    land(str(broker.directory), str(full))
    for table in (*TABLES, "offsets_daily"):
        found = ds.dataset(str(empty / table), format="parquet", partitioning="hive")
        assert found.count_rows() == 0
        landed = ds.dataset(str(full / table), format="parquet", partitioning="hive")
        assert found.schema.remove_metadata() == landed.schema.remove_metadata()
    for table in ("offset_commits", "assignments", "lag"):
        read = spark.read.parquet(str(empty / table))
        assert read.schema == spark.read.parquet(str(full / table)).schema
        assert read.count() == 0


def test_a_table_keeps_its_rows_only_when_it_has_some(tmp_path: Path) -> None:
    """The file without rows is no part of what is landed."""
    broker = Broker(tmp_path / "data")
    broker.append(0, [event()])
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    before = sorted((target / "offset_commits").rglob("*.parquet"))
    assert [each.name for each in before] == ["empty.parquet"]
    broker.append(0, [commit(1)])
    land(str(broker.directory), str(target))
    assert len(rows(target, "offset_commits")) == 1
    assert offsets_now(str(target)).num_rows == 1

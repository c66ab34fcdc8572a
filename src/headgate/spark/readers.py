"""Readers: the only place where a DataFrame of ours comes from.

A `source` is a broker's data directory, or `HOST:PORT[,HOST:PORT...]` of a cluster. Further options are those
of `options.NAMES`, by their names there; a problem with them, or a source that is not there, shows at once as
Spark's `AnalysisException` or at the first action as a `PythonException`, each with our message in it.
"""

from __future__ import annotations

import os
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.options import source_option
from headgate.spark.source import (
    DATA_SOURCES,
    CorruptionsDataSource,
    GroupEventsDataSource,
    HeadgateDataSource,
    OffsetCommitsDataSource,
)

Source = str | os.PathLike[str]


_registered: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("headgate")` and the typed formats known to a session; once is enough."""
    if spark in _registered:
        return  # Spark would do it again, and warn of each
    for data_source in DATA_SOURCES:
        spark.dataSource.register(data_source)
    _registered.add(spark)


def records(spark: SparkSession, source: Source, topic: str, **options: str | int | bool) -> DataFrame:
    """A topic's records, as `schemas.RECORDS`."""
    return _load(spark, HeadgateDataSource.name(), source, {"topic": topic, **options})


def offset_commits(spark: SparkSession, source: Source, **options: str | int | bool) -> DataFrame:
    """Every offset commit and removal in the coordinator's log, as `schemas.OFFSET_COMMITS`."""
    return _load(spark, OffsetCommitsDataSource.name(), source, options)


def group_events(spark: SparkSession, source: Source, **options: str | int | bool) -> DataFrame:
    """Everything else in the coordinator's log, as `schemas.GROUP_EVENTS`."""
    return _load(spark, GroupEventsDataSource.name(), source, options)


def corruptions(spark: SparkSession, source: Source, topic: str, **options: str | int | bool) -> DataFrame:
    """What of a topic's log cannot be read, as `schemas.CORRUPTIONS`; empty for a healthy log."""
    return _load(spark, CorruptionsDataSource.name(), source, {"topic": topic, **options})


def _load(spark: SparkSession, name: str, source: Source, options: dict[str, str | int | bool]) -> DataFrame:
    register(spark)
    key, value = source_option(source)
    return spark.read.format(name).options(**options).option(key, value).load()

"""Readers: the functions that make DataFrames.

A `source` is a broker's data directory, or `HOST:PORT[,HOST:PORT...]` of a cluster. Further options have the
names of `options.NAMES`. An invalid option or a missing source raises Spark's `AnalysisException` at once, or
a `PythonException` at the first action, each with Headgate's message.

The first action on a DataFrame plans its read. Later actions on it read the same files of a directory: call
the reader again for the records since. Of a cluster they read up to the end of the logs each time.
"""

from __future__ import annotations

import os
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.formats import (
    DATA_SOURCES,
    CorruptionsDataSource,
    GroupEventsDataSource,
    HeadgateDataSource,
    IncompleteCommitsDataSource,
    OffsetCommitsDataSource,
    OffsetHistoryDataSource,
    ShareDeliveriesDataSource,
    TransactionsDataSource,
)
from headgate.spark.options import OptionError, choose_columns, source_option
from headgate.spark.schemas import OFFSET_COMMITS

Source = str | os.PathLike[str]

_PLACE = ("log_partition", "log_offset")


_registered: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("headgate")` and the typed formats in a session; may be called again."""
    if spark in _registered:
        return  # Spark would register each again, with a warning
    for data_source in DATA_SOURCES:
        spark.dataSource.register(data_source)
    _registered.add(spark)


def records(spark: SparkSession, source: Source, topic: str, **options: str | int | bool) -> DataFrame:
    """Return the records of a topic, or of several separated by commas, as `schemas.RECORDS`."""
    return _load(spark, HeadgateDataSource.name(), source, {"subscribe": topic, **options})


def offset_commits(
    spark: SparkSession, source: Source, *, include_history: bool = False, **options: str | int | bool
) -> DataFrame:
    """Return every offset commit and removal in the coordinator's log, as `schemas.OFFSET_COMMITS`.

    With `include_history` the result includes the records that compaction replaced, as far back as the
    history goes. Each row occurs once, by `log_partition` and `log_offset`. Raises OptionError for start and
    end offsets, which apply to only one of the two logs.
    """
    if not include_history:
        return _load(spark, OffsetCommitsDataSource.name(), source, options)
    for name in options:
        if name.lower() in ("startingoffsets", "endingoffsets"):
            raise OptionError(f"option {name} does not go with include_history: filter by log_offset")
    chosen = OFFSET_COMMITS.fieldNames()
    if "columns" in options:
        names = tuple(name.strip() for name in str(options["columns"]).split(","))
        chosen = choose_columns(names, chosen)
        options["columns"] = ",".join(dict.fromkeys((*chosen, *_PLACE)))
    log = _load(spark, OffsetCommitsDataSource.name(), source, options)
    history = _load(spark, OffsetHistoryDataSource.name(), source, options)
    return log.unionByName(history).dropDuplicates(list(_PLACE)).select(*chosen)


def incomplete_commits(spark: SparkSession, source: Source, **options: str | int | bool) -> DataFrame:
    """Return offset commits that a crash cut short, which never took effect, as `OFFSET_COMMITS`."""
    return _load(spark, IncompleteCommitsDataSource.name(), source, options)


def group_events(spark: SparkSession, source: Source, **options: str | int | bool) -> DataFrame:
    """Return all other records of the coordinator's log, as `schemas.GROUP_EVENTS`."""
    return _load(spark, GroupEventsDataSource.name(), source, options)


def transactions(spark: SparkSession, source: Source, **options: str | int | bool) -> DataFrame:
    """Return the transitions of transactional ids, from `__transaction_state`, as `schemas.TRANSACTIONS`."""
    return _load(spark, TransactionsDataSource.name(), source, options)


def share_deliveries(spark: SparkSession, source: Source, **options: str | int | bool) -> DataFrame:
    """Return the persisted deliveries of share groups, from `__share_group_state`, as `SHARE_DELIVERIES`."""
    return _load(spark, ShareDeliveriesDataSource.name(), source, options)


def corruptions(spark: SparkSession, source: Source, topic: str, **options: str | int | bool) -> DataFrame:
    """Return the unreadable parts of a topic's log, as `schemas.CORRUPTIONS`; empty for a valid log."""
    return _load(spark, CorruptionsDataSource.name(), source, {"subscribe": topic, **options})


def _load(spark: SparkSession, name: str, source: Source, options: dict[str, str | int | bool]) -> DataFrame:
    register(spark)
    key, value = source_option(source)
    return spark.read.format(name).options(**options).option(key, value).load()

"""Headgate's logs as Spark tables.

    import headgate.spark
    headgate.spark.register(spark)
    spark.read.format("headgate").option("path", "data").option("topic", "flights").load()
    headgate.spark.offset_commits(spark, "127.0.0.1:9092")

A source is a broker's data directory or `HOST:PORT[,HOST:PORT...]` of a cluster, Headgate's or Apache
Kafka's. Needs the extra: `pip install 'headgate[spark]'`, and Java 17 or later.
"""

from __future__ import annotations

import os
import sys

from headgate.spark.formats import HeadgateDataSource
from headgate.spark.readers import (
    corruptions,
    group_events,
    incomplete_commits,
    offset_commits,
    records,
    register,
    share_deliveries,
    transactions,
)

# By default Spark starts its workers with the first `python3` it finds; they must find this package. Spark
# reads this variable when it starts, so it applies to sessions made after this import; `spark.pyspark.python`
# has precedence.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Options for the JVMs of Spark (`spark.driver.extraJavaOptions`, `spark.executor.extraJavaOptions`).

Without them Arrow checks the bounds of each number that Spark reads, which takes a third of the transfer of
rows from Python. Spark asks for rows and columns that exist, and whether a value is null before it reads it.
"""

__all__ = [
    "JAVA_OPTIONS",
    "HeadgateDataSource",
    "corruptions",
    "group_events",
    "incomplete_commits",
    "offset_commits",
    "records",
    "register",
    "share_deliveries",
    "transactions",
]

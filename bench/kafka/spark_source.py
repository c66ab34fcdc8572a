"""Spark's own Kafka source, as a peer of `headgate.spark`: its jars, from Maven Central."""

from __future__ import annotations

from bench.kafka.fetch import fetch_jars
from bench.paths import SPARK_SOURCE_LIBS, SPARK_SOURCE_POM


def fetch_spark_source() -> str:
    """Download the jars unless they are here; return one line with the result. Raises SystemExit."""
    return fetch_jars("Spark's Kafka source", SPARK_SOURCE_POM, SPARK_SOURCE_LIBS)


def spark_source_jars() -> list[str]:
    """Return the paths of the jars, for `spark.jars`; none if they were not fetched."""
    return sorted(str(jar) for jar in SPARK_SOURCE_LIBS.glob("*.jar"))

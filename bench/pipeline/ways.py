"""With what a run measures: machine code or numpy, DuckDB or not, Spark's own Kafka source or not."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from bench.kafka.spark_source import fetch_spark_source, spark_source_jars
from headgate.log import record_kernel


@dataclass(frozen=True, slots=True)
class Ways:
    """What reads records, and what is measured beside: a version, or why it is not."""

    records: str
    duckdb: str
    spark_source: str
    pyspark: str

    def lines(self) -> list[str]:
        """Return the heading of the figures."""
        return [
            f"records are read by {self.records}",
            f"DuckDB: {self.duckdb}",
            f"Spark's own Kafka source: {self.spark_source}",
            f"PySpark: {self.pyspark}",
        ]


def ways_here() -> Ways:
    """Return the ways of this environment; fetch Spark's Kafka source, if it is not here."""
    is_compiled = record_kernel.compiled_find_fields() is not None
    numpy = f"numpy {_version_of('numpy')} (the slow way; numba: {_version_of('numba')})"
    return Ways(
        records=f"machine code (numba {_version_of('numba')})" if is_compiled else numpy,
        duckdb=_version_of("duckdb"),
        spark_source=_spark_source(),
        pyspark=_version_of("pyspark"),
    )


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _spark_source() -> str:
    try:
        fetch_spark_source()
    except SystemExit as why:
        return f"not here: {why}"
    (jar,) = (jar for jar in spark_source_jars() if "spark-sql-kafka" in jar)
    return jar.rpartition("-")[2].removesuffix(".jar")

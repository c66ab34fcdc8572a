"""The session of the measurements."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession


def started(master: str, jars: Sequence[str] = (), java_options: str = "") -> SparkSession:
    """Start a session with these jars, and its JVM with these options."""
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(jars),
        "spark.driver.extraJavaOptions": java_options,
    }
    return SparkSession.builder.master(master).config(map=settings).getOrCreate()

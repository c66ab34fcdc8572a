"""Analyse the broker's files with Spark: `python -m demo.analysis DIRECTORY CRASHED_AT_MS BACK_AT_MS`.

It runs in a process of its own, so that its JVM ends with it. It reads the coordinator's log and the flights
from the data directory of the running broker, and writes tables and a chart to DIRECTORY. Each line of its
standard output is one JSON object: the current step, and at the end the results.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import headgate.spark
from demo.chart import Crash, Facts, draw
from demo.story import GROUP, TOPIC
from headgate.spark.group_transforms import rebalances
from headgate.spark.transforms import (
    commits_per_interval,
    commits_per_minute,
    end_offsets_over_time,
    lag_over_time,
    latest_offsets,
)

LAG_INTERVAL = "250 milliseconds"  # chart.LAG_STEP, as Spark spells it
COMMITS_INTERVAL = "1 second"


def session() -> SparkSession:
    """Return a small local Spark session: two cores, no web interface, bound to the loopback address."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .appName("headgate demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # The jobs are short: full compilation would take longer than it saves.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )


def say(**entry: Any) -> None:
    """Print one line for the demo."""
    print(json.dumps(entry), flush=True)


def analyse(spark: SparkSession, directory: Path, crash: Crash) -> dict[str, Any]:
    """Read, transform, and write tables and chart; return the results for the demo's output and checks."""
    data = directory / "data"
    say(step="reading the coordinator's log")
    commits = headgate.spark.offset_commits(spark, data).where(F.col("group_id") == GROUP).cache()
    events = headgate.spark.group_events(spark, data).where(F.col("group_id") == GROUP).cache()
    commit_count = commits.count()
    latest = _table(commits.transform(latest_offsets(events)), ["partition"])

    say(step="counting commits per partition and minute")
    per_minute = _table(commits.transform(commits_per_minute()), ["at", "partition"])
    per_second = _table(commits.transform(commits_per_interval(COMMITS_INTERVAL)), ["at", "partition"])

    say(step="following the lag through the crash")
    flights = headgate.spark.records(spark, data, TOPIC, columns="topic,partition,offset,timestamp")
    ends = flights.transform(end_offsets_over_time(LAG_INTERVAL)).cache()
    lag = _table(commits.transform(lag_over_time(ends, LAG_INTERVAL)), ["at", "partition"])

    say(step="listing the rebalances")
    changes = _table(events.transform(rebalances()), ["log_offset"])
    assigned = _table(
        events.where(F.col("event") == "assigned")
        .select("log_offset", F.col("log_timestamp").alias("at"), F.explode("members").alias("member"))
        .select(
            "log_offset", "at", "member.client_id", F.explode("member.assigned.partition").alias("partition")
        ),
        ["log_offset"],
    )

    say(step="drawing")
    facts = Facts(
        lag=lag,
        commits=per_second,
        rebalances=changes,
        owners=owners_at(crash.at, assigned),
        crash=crash,
    )
    draw(facts, directory / "lag.png")
    tables = {"commits_per_minute": per_minute, "commits_per_second": per_second}
    for name, table in {**tables, "lag_over_time": lag, "rebalances": changes}.items():
        table.map(_in_a_cell).to_csv(directory / f"{name}.csv", index=False)
    return {
        "flights": headgate.spark.records(spark, data, TOPIC, columns="offset").count(),
        "commits": commit_count,
        "latest": dict(
            zip(latest["partition"].astype(str), latest["committed_offset"].tolist(), strict=True)
        ),
        "peak_lag": int(lag.groupby("at")["lag"].sum().max()),
        "commits_per_minute": _rows(per_minute),
        "rebalances": _rows(changes),
    }


def owners_at(at: pd.Timestamp, assigned: pd.DataFrame) -> dict[int, str]:
    """Return who owned each partition at that time; `assigned` has a row for each, in every assignment.

    At the end of the demo the members leave one after the other, and the last may get all partitions.
    """
    earlier = assigned[assigned["at"] < at]
    return dict(zip(earlier["partition"], earlier["client_id"], strict=True))


def _table(frame: DataFrame, order: list[str]) -> pd.DataFrame:
    table: pd.DataFrame = cast("Any", frame.orderBy(*order).toPandas())
    return table


def _in_a_cell(value: Any) -> Any:
    """Return a list of names as one text."""
    return ", ".join(value) if isinstance(value, np.ndarray | list) else value


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", date_format="iso"))
    return rows


def main(directory: str, crashed_at_ms: str, back_at_ms: str) -> None:
    """Run the analysis, and print the results."""
    say(step="starting Spark")
    spark = session()
    try:
        crash = Crash(
            pd.Timestamp(int(crashed_at_ms), unit="ms"),
            pd.Timestamp(int(back_at_ms), unit="ms"),
        )
        say(result=analyse(spark, Path(directory), crash))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

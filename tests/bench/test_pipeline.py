"""A small run of `make bench-spark` has all its rows, and each measures what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import pytest
from bench.kafka.spark_source import fetch_spark_source
from bench.paths import ROOT

pytestmark = pytest.mark.timeout(600)

COMMITS, PARTITIONS, RECORDS = 800, 5, 800
SIZES = ["--commits", "500", "--groups", "4", "--partitions", str(PARTITIONS), "--records", str(RECORDS)]


@pytest.fixture(scope="module")
def not_fetched() -> str | None:
    """Why Spark's own Kafka source is not here; None if it is."""
    try:
        fetch_spark_source()
    except SystemExit as why:
        return str(why)
    return None


@pytest.fixture(scope="module")
def run(not_fetched: str | None, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What a small run prints, and its JSON."""
    out = tmp_path_factory.mktemp("bench") / "figures.json"
    command = [sys.executable, "-m", "bench.pipeline", *SIZES, "--master", "local[2]", "--out", str(out)]
    surroundings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not out.with_suffix("").exists()
    return done.stdout, json.loads(out.read_text())


@pytest.fixture(scope="module")
def figures(run: tuple[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The figures of the run, by their names; connections by the same names with a suffix."""
    found = run[1]["figures"]
    return {one["what"] + (", connections" if one["connections"] is not None else ""): one for one in found}


def test_the_ways_are_told(run: tuple[str, dict[str, Any]], not_fetched: str | None) -> None:
    """Before the figures, and in the JSON: a run without numba is no figure of machine code."""
    printed, found = run
    ways = found["ways"]
    assert ways["records"] == f"machine code (numba {version('numba')})"
    assert ways["duckdb"] == (version("duckdb") if find_spec("duckdb") else "not installed")
    assert ways["spark_source"][0].isdigit() == (not_fetched is None)
    assert printed.startswith(f"records are read by {ways['records']}\nDuckDB: {ways['duckdb']}\n")


def test_a_run_without_numba_says_that_it_is_slow() -> None:
    """It measures numpy."""
    tell = "from bench.pipeline.ways import ways_here; print(ways_here().lines()[0])"
    done = subprocess.run(
        [sys.executable, "-c", tell],
        cwd=ROOT,
        env={**os.environ, "HEADGATE_NUMBA": "no"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.startswith(f"records are read by numpy {version('numpy')} (the slow way; numba: ")


@pytest.mark.parametrize(
    ("what", "rows"),
    [
        ("Spark, sink that does nothing", COMMITS),
        ("the same rows, ready in Python: Spark alone", COMMITS),
        ("Spark, sink that does nothing, without Arrow's checks", COMMITS),
        ("the same rows, ready in Python: Spark alone, without Arrow's checks", COMMITS),
        ("land commits", COMMITS),
        ("land commits and offsets_current", COMMITS),
        ("decode to Arrow, one process, warm", COMMITS),
        ("offsets_current of landed rows in memory, one process", COMMITS),
        ("the same, plain PySpark on the landed files", COMMITS),
        (f"plan {PARTITIONS} partitions from files", PARTITIONS),
        (f"plan and read {PARTITIONS} partitions from files", PARTITIONS),
        (f"plan {PARTITIONS} partitions over the wire", PARTITIONS),
        (f"plan and read {PARTITIONS} partitions over the wire", PARTITIONS),
        ('readStream.format("headgate"), records of 100 bytes', RECORDS),
    ],
)
def test_each_row_is_measured(figures: dict[str, dict[str, Any]], what: str, rows: int) -> None:
    """Its number of rows is the one that was asked for."""
    assert figures[what]["rows"] == rows
    assert figures[what]["seconds"] > 0


def test_memory_is_measured(figures: dict[str, dict[str, Any]]) -> None:
    """Of the driver's Python what it added, and of its JVM what is in use."""
    assert figures["memory of the driver's Python that the landings added"]["memory_bytes"] >= 0
    assert figures["heap of the driver's JVM in use after them"]["memory_bytes"] > 1 << 20


def test_partitions_share_connections(figures: dict[str, dict[str, Any]]) -> None:
    """A plan has one connection, a read that and one for each task and broker."""
    assert figures[f"plan {PARTITIONS} partitions over the wire, connections"]["connections"] == 1
    assert figures[f"plan and read {PARTITIONS} partitions over the wire, connections"]["connections"] <= 4


def test_sparks_own_kafka_source_is_beside(
    figures: dict[str, dict[str, Any]], not_fetched: str | None
) -> None:
    """It reads the same topics of the same server."""
    if not_fetched is not None:
        pytest.skip(not_fetched)
    what = f"plan and read {PARTITIONS} of these, Spark's Kafka source"
    assert figures[what]["rows"] == PARTITIONS
    assert figures[f"{what}, connections"]["connections"] > 0
    assert figures['readStream.format("kafka"), records of 100 bytes']["rows"] == RECORDS

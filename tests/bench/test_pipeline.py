"""A small run of `make bench-spark` has all its rows, and each measures what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bench.kafka.spark_source import fetch_spark_source
from bench.paths import ROOT

pytestmark = pytest.mark.timeout(600)

COMMITS, PARTITIONS, RECORDS = 800, 5, 800
SIZES = ["--commits", "500", "--groups", "4", "--partitions", str(PARTITIONS), "--records", str(RECORDS)]


MEASURED = {
    "Spark, sink that does nothing": COMMITS,
    "the same rows, ready in Python: Spark alone": COMMITS,
    "Spark, sink that does nothing, without Arrow's checks": COMMITS,
    "the same rows, ready in Python: Spark alone, without Arrow's checks": COMMITS,
    "land commits": COMMITS,
    "land commits and offsets_current": COMMITS,
    "decode to Arrow, one process, warm": COMMITS,
    "offsets_current of landed rows in memory, one process": COMMITS,
    "the same, plain PySpark on the landed files": COMMITS,
    f"plan {PARTITIONS} partitions from files": PARTITIONS,
    f"plan and read {PARTITIONS} partitions from files": PARTITIONS,
    f"plan {PARTITIONS} partitions over the wire": PARTITIONS,
    f"plan and read {PARTITIONS} partitions over the wire": PARTITIONS,
    'readStream.format("headgate"), records of 100 bytes': RECORDS,
}
"""Number of rows by what is measured."""
BESIDE = f"plan and read {PARTITIONS} of these, Spark's Kafka source"
MEASURED_BESIDE = {BESIDE: PARTITIONS, 'readStream.format("kafka"), records of 100 bytes': RECORDS}
"""With Spark's own Kafka source, of the same topics of the same server."""


def why_not_fetched() -> str | None:
    """Why Spark's own Kafka source is not here; None if it is."""
    try:
        fetch_spark_source()
    except SystemExit as why:
        return str(why)
    return None


def small_run(out: Path) -> tuple[str, dict[str, Any]]:
    """What a small run prints, and its JSON."""
    command = [sys.executable, "-m", "bench.pipeline", *SIZES, "--master", "local[2]", "--out", str(out)]
    surroundings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not out.with_suffix("").exists()
    return done.stdout, json.loads(out.read_text())


def test_a_small_run_measures_everything(tmp_path: Path) -> None:
    """All in one test, as the run takes a minute: ways, rows, seconds, memory and connections."""
    not_fetched = why_not_fetched()
    printed, found = small_run(tmp_path / "figures.json")
    # Before the figures, and in the JSON: a run without numba is no figure of machine code.
    ways = found["ways"]
    assert ways["records"] == f"machine code (numba {version('numba')})"
    assert ways["duckdb"] == (version("duckdb") if find_spec("duckdb") else "not installed")
    assert ways["spark_source"][0].isdigit() == (not_fetched is None)
    assert printed.startswith(f"records are read by {ways['records']}\nDuckDB: {ways['duckdb']}\n")

    figures = {one["what"]: one for one in found["figures"] if one["connections"] is None}
    expected = MEASURED | ({} if not_fetched else MEASURED_BESIDE)
    assert {what: figures[what]["rows"] for what in expected} == expected
    assert all(figures[what]["seconds"] > 0 for what in expected)
    assert figures["memory of the driver's Python that the landings added"]["memory_bytes"] >= 0
    assert figures["heap of the driver's JVM in use after them"]["memory_bytes"] > 1 << 20

    # A plan has one connection, a read that and one for each task and broker.
    counted = [one for one in found["figures"] if one["connections"] is not None]
    connections = {one["what"]: one["connections"] for one in counted}
    assert connections[f"plan {PARTITIONS} partitions over the wire"] == 1
    assert connections[f"plan and read {PARTITIONS} partitions over the wire"] <= 4
    if not_fetched is None:
        assert connections[BESIDE] > 0


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

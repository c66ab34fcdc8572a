"""The directories of downloads and builds; all are under `build/` and may be deleted."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
KAFKA_POM = ROOT / "bench" / "kafka" / "pom.xml"
KAFKA_LIBS = BUILD / "kafka" / "libs"
SPARK_SOURCE_POM = ROOT / "bench" / "kafka" / "spark-source.xml"
SPARK_SOURCE_LIBS = BUILD / "spark-source" / "libs"

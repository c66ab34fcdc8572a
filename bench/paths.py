"""Where this repository keeps what it fetches and builds; all of it is under `build/` and may be deleted."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
KAFKA_POM = ROOT / "bench" / "kafka" / "pom.xml"
KAFKA_LIBS = BUILD / "kafka" / "libs"

"""`python -m bench.kafka`: download Apache Kafka's jars from Maven Central into `build/kafka/libs`.

The versions are in `pom.xml`. A copy of the pom is stored beside the jars, so that a second run downloads
nothing.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.paths import KAFKA_LIBS, KAFKA_POM

FETCH_TIMEOUT_S = 900
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def fetch() -> str:
    """Download Apache Kafka unless it is here; return one line with the result. Raises SystemExit."""
    return fetch_jars("Apache Kafka", KAFKA_POM, KAFKA_LIBS)


def fetch_jars(what: str, pom_path: Path, libs: Path) -> str:
    """Download the jars of a pom unless they exist; return one line with the result. Raises SystemExit."""
    fetched_from = libs.parent / "fetched-from.xml"
    pom = pom_path.read_bytes()
    if fetched_from.exists() and fetched_from.read_bytes() == pom:
        return f"{what} is already in {libs}"
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit(f"Maven is needed to fetch {what}: install it (Debian: apt-get install maven)")
    shutil.rmtree(libs, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(pom_path), GOAL, f"-DoutputDirectory={libs}"]
    try:
        status = subprocess.run(command, timeout=FETCH_TIMEOUT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        raise SystemExit(f"Maven Central gave no answer for {FETCH_TIMEOUT_S} s: try again") from None
    if status:
        raise SystemExit(f"Maven could not fetch {what} (exit status {status}): its message is above")
    fetched_from.write_bytes(pom)
    return f"{what}: {sum(1 for _ in libs.glob('*.jar'))} jars in {libs}"

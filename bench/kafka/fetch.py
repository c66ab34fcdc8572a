"""`python -m bench.kafka`: download Apache Kafka's jars from Maven Central into `build/kafka/libs`.

The versions are in `pom.xml`. A copy of the pom is stored beside the jars, so that a second run downloads
nothing.
"""

from __future__ import annotations

import shutil
import subprocess

from bench.paths import KAFKA_LIBS, KAFKA_POM

FETCH_TIMEOUT_S = 900
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def fetch() -> str:
    """Download the jars unless they exist; return one line with the result. Raises SystemExit."""
    fetched_from = KAFKA_LIBS.parent / "fetched-from.xml"
    pom = KAFKA_POM.read_bytes()
    if fetched_from.exists() and fetched_from.read_bytes() == pom:
        return f"Apache Kafka is already in {KAFKA_LIBS}"
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("Maven is needed to fetch Apache Kafka: install it (Debian: apt-get install maven)")
    shutil.rmtree(KAFKA_LIBS, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(KAFKA_POM), GOAL, f"-DoutputDirectory={KAFKA_LIBS}"]
    try:
        status = subprocess.run(command, timeout=FETCH_TIMEOUT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        raise SystemExit(f"Maven Central gave no answer for {FETCH_TIMEOUT_S} s: try again") from None
    if status:
        raise SystemExit(f"Maven could not fetch Apache Kafka (exit status {status}): its message is above")
    fetched_from.write_bytes(pom)
    return f"Apache Kafka: {sum(1 for _ in KAFKA_LIBS.glob('*.jar'))} jars in {KAFKA_LIBS}"

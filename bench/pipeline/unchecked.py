"""The sink that does nothing, in a JVM without Arrow's checks of each access (`headgate.spark.JAVA_OPTIONS`).

Options of a JVM are fixed when it starts, so this runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from bench.paths import ROOT
from bench.pipeline.commits import through_spark
from bench.pipeline.figures import Figure
from bench.pipeline.session import started
from headgate.spark import JAVA_OPTIONS

TIMEOUT_S = 1800


def unchecked(data: Path, commits: int, master: str) -> Iterator[Figure]:
    """Measure it in a child process. Raises CalledProcessError."""
    command = [sys.executable, "-m", "bench.pipeline.unchecked", str(data), str(commits), master]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S)
    for figure in json.loads(done.stdout.splitlines()[-1]):
        yield Figure(**figure)


def main() -> None:
    """Run the command line: DATA COMMITS MASTER."""
    data, commits, master = sys.argv[1:]
    spark = started(master, java_options=JAVA_OPTIONS)
    figures = list(through_spark(spark, Path(data), int(commits)))
    spark.stop()
    named = [replace(figure, what=f"{figure.what}, without Arrow's checks") for figure in figures]
    print(json.dumps([asdict(figure) for figure in named]))


if __name__ == "__main__":
    main()

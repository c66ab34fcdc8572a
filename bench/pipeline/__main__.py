"""`python -m bench.pipeline`: run all measurements of the pipeline and print them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.kafka.spark_source import spark_source_jars
from bench.paths import BUILD
from bench.pipeline.commit_log import GROUPS, make_log
from bench.pipeline.commits import current_offsets, decoding, landings, through_spark
from bench.pipeline.figures import Figure, table_of
from bench.pipeline.live import serving
from bench.pipeline.many import from_files, over_the_wire
from bench.pipeline.session import started
from bench.pipeline.streams import streams
from bench.pipeline.unchecked import unchecked
from bench.pipeline.ways import ways_here


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    commits: int
    groups: int
    partitions: int
    records: int


def measure(home: Path, sizes: Sizes, master: str) -> Iterator[Figure]:
    """Yield the figures; `home` is a directory for logs and tables, with the log of commits in `data`."""
    jars = spark_source_jars()
    spark = started(master, jars)
    try:
        yield from through_spark(spark, home / "data", sizes.commits)
        yield from landings(spark, home / "data", home / "tables", sizes.commits)
        yield from decoding(home / "data")
        yield from current_offsets(spark, home / "tables", sizes.commits, sizes.groups)
        yield from from_files(spark, home / "many", sizes.partitions)
        with serving(home / "served") as server:
            yield from over_the_wire(spark, server, sizes.partitions, beside=bool(jars))
            yield from streams(spark, server, sizes.records, beside=bool(jars))
    finally:
        spark.stop()
    yield from unchecked(home / "data", sizes.commits, master)


def main(
    commits: Annotated[int, typer.Option(help="Number of commits in the log.")] = 10_000_000,
    groups: Annotated[int, typer.Option(help="Number of groups that commit.")] = GROUPS,
    partitions: Annotated[int, typer.Option(help="Number of partitions of the topic with many.")] = 10_000,
    records: Annotated[int, typer.Option(help="Number of records that a stream reads.")] = 5_000_000,
    master: Annotated[str, typer.Option(help="The Spark that does the work.")] = "local[*]",
    out: Annotated[Path, typer.Option(help="Where the figures are written.")] = BUILD / "bench-spark.json",
) -> None:
    """Make the log, measure, and print the figures; they are also written as JSON.

    The heading says what reads the records, and what is measured beside.
    """
    home = out.with_suffix("")
    shutil.rmtree(home, ignore_errors=True)
    console = Console()
    ways = ways_here()
    console.print(*ways.lines(), sep="\n", highlight=False, soft_wrap=True)
    begin = time.perf_counter()
    try:
        count = make_log(home / "data", commits, groups)
        console.print(f"{count:,} commits written in {time.perf_counter() - begin:.0f} s")
        figures = []
        for figure in measure(home, Sizes(count, groups, partitions, records), master):
            figures.append(figure)
            console.print(
                *(cell for cell in figure.cells() if cell), sep="  ", highlight=False, soft_wrap=True
            )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    console.print(*ways.lines(), sep="\n", highlight=False, soft_wrap=True)
    console.print(table_of(figures))
    found = {"ways": asdict(ways), "figures": [asdict(figure) for figure in figures]}
    out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    typer.run(main)

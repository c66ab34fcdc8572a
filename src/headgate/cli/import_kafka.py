"""`headgate import`: take over the directory of a stopped Kafka broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from headgate.cli.connecting import TableOrJson
from headgate.cli.option_classes import directory


def import_kafka(
    from_kafka_log: Annotated[
        list[Path],
        typer.Option(
            "--from-kafka-log",
            parser=directory,
            metavar="DIR",
            help="A directory of log.dirs of the stopped broker; repeat it for each one.",
            show_default=False,
        ),
    ],
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir",
            parser=directory,
            metavar="DIR",
            help="The new data directory: missing or empty.",
            show_default=False,
        ),
    ],
    topics: Annotated[
        str | None,
        typer.Option(metavar="TOPIC,...", help="Take over the records of these topics.", show_default=False),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="The same for every topic.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the logs and print what would be done; write nothing.")
    ] = False,
    output: TableOrJson = "table",
) -> None:
    """Take over the directory of a stopped Apache Kafka 4 broker (KRaft) into a new data directory.

    Groups, offsets, transactions and states of share groups are taken over, the cluster id, and all topics
    with their ids, numbers of partitions and settings. Records are copied for the topics that are named;
    the other topics are empty and begin where Kafka's end, so that committed offsets keep their meaning.

    The Kafka directory is not changed. An import that was interrupted can be repeated, and begins anew.

    Exit code 0: done. 2: refused, nothing was taken over.

    Example: headgate import --from-kafka-log /var/lib/kafka/data --data-dir ./data --topics orders
    """
    from headgate.cli.import_run import Wanted, run_import
    from headgate.takeover.errors import ImportRefused

    if output not in ("table", "json"):
        _refuse(f"--output {output}: table or json is expected")
    if topics is not None and all_topics:
        _refuse("--topics and --all-topics: one of them is expected")
    names = [name.strip() for name in (topics or "").split(",") if name.strip()]
    wanted = Wanted(from_kafka_log, data_dir, names, all_topics, dry_run, output == "json")
    try:
        run_import(wanted)
    except ImportRefused as problem:
        _refuse(str(problem))
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        _refuse(f"{where}{problem.strerror or problem}")


def _refuse(message: str) -> NoReturn:
    typer.echo(f"headgate: {message}", err=True)
    raise typer.Exit(2)

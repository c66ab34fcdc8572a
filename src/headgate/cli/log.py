"""`headgate log`: print (`dump`), check (`verify`) and mend a data directory. Only `mend` changes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from headgate.cli.connecting import TableOrJson

log = typer.Typer(name="log", help="Print, check and mend a data directory.", no_args_is_help=True)

DataDir = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A server's data directory; the server may be running.", show_default=False
    ),
]


@log.command()
def dump(
    data_dir: DataDir,
    partition: Annotated[
        str | None,
        typer.Option(metavar="TOPIC-N", help="Print the log of this partition.", show_default=False),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Print the logs of this topic's partitions.")
    ] = None,
    from_offset: Annotated[int, typer.Option(min=0, help="Start with the batch that has this offset.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Print at most N batches (or records) of each partition.")
    ] = None,
    records: Annotated[
        bool, typer.Option("--records/--batches", help="Print records too, or batches only.")
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Print records with their keys.")] = False,
    values: Annotated[bool, typer.Option("--values", help="Print records with their values.")] = False,
    output: TableOrJson = "table",
) -> None:
    """Print the content of a data directory.

    Without --partition and --topic: the topics, their settings, and the offsets of each log. With one of
    them: segments and batches in the format of kafka-dump-log.sh, and the meaning of the coordinator's
    records.

    Example: headgate log dump ./data --topic __consumer_offsets --records
    """
    from headgate.cli.log_dump import DumpOptions, NothingToDump, dump_directory
    from headgate.inspect.directory import NotADataDirectory

    _check_output(output)
    if partition is not None and topic is not None:
        _refuse("--partition and --topic: one of them is expected")
    if (
        partition is None
        and topic is None
        and (records or keys or values or from_offset or limit is not None)
    ):
        _refuse(
            "--partition TOPIC-N or --topic TOPIC is expected with options that choose batches or records"
        )
    options = DumpOptions(
        data_dir=data_dir,
        partition=partition,
        topic=topic,
        from_offset=from_offset,
        limit=limit,
        with_records=records or keys or values,
        with_keys=keys,
        with_values=values,
        as_json=output == "json",
    )
    try:
        dump_directory(options)
    except (NotADataDirectory, NothingToDump) as problem:
        _refuse(str(problem))
    except OSError as problem:
        _refuse(_unreadable(problem))


@log.command()
def verify(data_dir: DataDir, output: TableOrJson = "table") -> None:
    """Check a data directory for damage, and print what to do about each finding.

    Exit code 0: no damage (there can be notes). 1: damage. 2: the directory cannot be checked.

    Example: headgate log verify ./data
    """
    from headgate.cli.log_verify import verify_directory
    from headgate.inspect.directory import NotADataDirectory

    _check_output(output)
    try:
        is_clean = verify_directory(data_dir, as_json=output == "json")
    except NotADataDirectory as problem:
        _refuse(str(problem))
    except OSError as problem:
        _refuse(_unreadable(problem))
    if not is_clean:
        raise typer.Exit(1)


@log.command()
def mend(
    data_dir: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The data directory of a stopped server.", show_default=False),
    ],
    partition: Annotated[
        str | None,
        typer.Option(metavar="TOPIC-N", help="Mend this partition only.", show_default="all partitions"),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Change the files.")] = False,
    output: TableOrJson = "table",
) -> None:
    """Replace damaged batches and missing segments by empty batches: all other records keep their offsets.

    The last resort for a log that has no backup. Without --execute it prints which records are lost, and
    changes nothing. Copy the directory before you use --execute.

    Exit code 0: every log can be mended, or is. 1: one cannot. 2: nothing was done.

    Example: headgate log mend ./data --partition orders-0
    """
    from headgate.cli.log_mend import print_mended
    from headgate.inspect.directory import NotADataDirectory
    from headgate.inspect.mend import NotMended

    _check_output(output)
    try:
        is_mended = print_mended(data_dir, partition, execute=execute, as_json=output == "json")
    except (NotADataDirectory, NotMended) as problem:
        _refuse(str(problem))
    except OSError as problem:
        _refuse(_unreadable(problem))
    if not is_mended:
        raise typer.Exit(1)


def _check_output(output: str) -> None:
    if output not in ("table", "json"):
        _refuse(f"--output {output}: table or json is expected")


def _unreadable(problem: OSError) -> str:
    return f"cannot read {problem.filename}: {problem.strerror}"


def _refuse(message: str) -> NoReturn:
    typer.echo(f"headgate: {message}", err=True)
    raise typer.Exit(2)

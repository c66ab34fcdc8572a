"""`headgate log`: what a data directory holds, explained (`dump`) and checked (`verify`). Changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

log = typer.Typer(
    name="log", help="Explain and check a data directory; nothing in it is changed.", no_args_is_help=True
)

DataDir = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A server's data directory; the server may run.", show_default=False),
]
Output = Annotated[str, typer.Option(help="table or json.")]


@log.command()
def dump(
    data_dir: DataDir,
    partition: Annotated[
        str | None, typer.Option(metavar="TOPIC-N", help="This partition's log.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The logs of this topic's partitions.")
    ] = None,
    from_offset: Annotated[int, typer.Option(min=0, help="Begin with the batch that holds this offset.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=0, help="So many batches (or records) of a partition at most.")
    ] = None,
    records: Annotated[
        bool, typer.Option("--records/--batches", help="The records too, or the batches alone.")
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="The records with their keys.")] = False,
    values: Annotated[bool, typer.Option("--values", help="The records with their values.")] = False,
    output: Output = "table",
) -> None:
    """Tell what a data directory holds.

    Without a partition or topic: the topics, their settings, and how far each log reaches. With one: its
    segments and batches, in the words of kafka-dump-log.sh, and what the coordinator's records mean.

    Example: headgate log dump ./data --topic __consumer_offsets --records
    """
    from headgate.cli.log_dump import DumpOptions, Refused, dump_directory
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
    except (NotADataDirectory, Refused) as problem:
        _refuse(str(problem))
    except BrokenPipeError:
        raise  # whoever read along has seen enough
    except OSError as problem:
        _refuse(_unreadable(problem))


@log.command()
def verify(data_dir: DataDir, output: Output = "table") -> None:
    """Check all that can be checked in a data directory, and say what to do about what is wrong.

    Exit code 0: nothing is wrong (there may be notes). 1: something is damaged. 2: there is nothing to check.

    Example: headgate log verify ./data
    """
    from headgate.cli.log_verify import verify_directory
    from headgate.inspect.directory import NotADataDirectory

    _check_output(output)
    try:
        is_clean = verify_directory(data_dir, as_json=output == "json")
    except NotADataDirectory as problem:
        _refuse(str(problem))
    except BrokenPipeError:
        raise
    except OSError as problem:
        _refuse(_unreadable(problem))
    if not is_clean:
        raise typer.Exit(1)


def _check_output(output: str) -> None:
    if output not in ("table", "json"):
        _refuse(f"--output {output}: table or json is expected")


def _unreadable(problem: OSError) -> str:
    return f"cannot read {problem.filename}: {problem.strerror}"


def _refuse(message: str) -> NoReturn:
    typer.echo(f"headgate: {message}", err=True)
    raise typer.Exit(2)

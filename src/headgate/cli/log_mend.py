"""The output of `headgate log mend`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from headgate.cli.log_verify import reading_progress
from headgate.cli.printing import printable
from headgate.domain.wording import counted
from headgate.inspect.mend import MendedLog, mend_directory
from headgate.log.filling import Loss


def print_mended(data_dir: Path, partition: str | None, *, execute: bool, as_json: bool) -> bool:
    """Mend a directory, or tell what would be lost. Return False if a log cannot be mended.

    Raises NotADataDirectory, NotMended and OSError.
    """
    with reading_progress(data_dir) as on_progress:
        logs = mend_directory(data_dir, partition, execute=execute, on_progress=on_progress)
    if as_json:
        print(
            json.dumps(
                {
                    "executed": execute,
                    "logs": [
                        {
                            "partition": log.partition,
                            "problem": log.problem,
                            "is_mended": log.is_mended,
                            "losses": [asdict(one) for one in log.losses],
                        }
                        for log in logs
                    ],
                },
                indent=2,
            )
        )
    else:
        _print_lines(logs, data_dir, execute=execute)
    return all(log.problem is None for log in logs)


def _print_lines(logs: list[MendedLog], data_dir: Path, *, execute: bool) -> None:
    for log in logs:
        for loss in log.losses:
            _print_loss(log.partition, loss)
        if log.problem is not None:
            state = (
                "it is mended, but the next start does not open it" if log.is_mended else "it is not mended"
            )
            typer.echo(f"{log.partition}: {state}: {printable(log.problem)}")
    mended = [log for log in logs if log.is_mended]
    if not logs:
        typer.echo("Nothing is damaged.")
    elif all(log.problem is not None and not log.is_mended for log in logs):
        typer.echo("Nothing was changed. Restore the data directory from a backup.")
    elif execute:
        typer.echo(f"Mended {counted(len(mended), 'log')}. Check: headgate log verify {data_dir}")
    else:
        typer.echo("Nothing was changed. Copy the directory, then run it again with --execute.")


def _print_loss(partition: str, loss: Loss) -> None:
    typer.echo(f"{partition}/{loss.file}, byte {loss.position}: {loss.what}")
    count = loss.end_offset - loss.first_offset
    lost = f"offsets {loss.first_offset} to {loss.end_offset - 1} ({counted(count, 'offset')})"
    parts = [f"{lost} have no record any more" if count else "no record is lost"]
    if loss.dropped_bytes:
        parts.append(f"{loss.dropped_bytes:,} bytes are dropped")
    typer.echo(f"       {'; '.join(parts)}.")
    if loss.transactions:
        typer.echo(f"       {loss.transactions[0].upper()}{loss.transactions[1:]}.")

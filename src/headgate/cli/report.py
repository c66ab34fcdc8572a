"""`headgate spark report`: one HTML page on all groups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headgate.cli.connecting import INTERRUPTED, CommandConfig
from headgate.cli.fleet.common import failed, told_unknown_ends
from headgate.cli.printing import say
from headgate.cli.spark import interruption_without_stack, options_of, session
from headgate.domain.setting import INT_MAX
from headgate.domain.wording import counted


def report(
    source: Annotated[str, typer.Argument(help="A data directory, or HOST:PORT[,HOST:PORT...].")],
    target: Annotated[Path, typer.Argument(help="The HTML file to write.")],
    lag: Annotated[bool, typer.Option(help="Lag over time, which reads the topics' timestamps.")] = True,
    retention_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Retention of offsets; by default the cluster's, or 7 days.", min=1, max=INT_MAX
        ),
    ] = None,
    command_config: CommandConfig = None,
    master: Annotated[str, typer.Option(help="The Spark that does the work.")] = "local[*]",
) -> None:
    """Write a page on all groups: findings, lag, commits, rebalances, members, expiries to come.

    The page is one file without scripts, which any browser shows, also offline.
    """
    try:
        from headgate.client.errors import ClientError
        from headgate.fleet import AuditFailed
        from headgate.fleet.report import gather, page
        from headgate.spark.options import OptionError
        from headgate.spark.plan import MissingData
    except ModuleNotFoundError as problem:
        raise failed(f"{problem}: pip install 'headgate[spark]'") from problem
    if not target.absolute().parent.is_dir():
        raise failed(f"{target}: there is no folder {target.absolute().parent}", 2)
    further = options_of(command_config)
    try:
        with interruption_without_stack(), Console(stderr=True).status("starting Spark") as status:
            spark = session(master, "headgate spark report")
            spark.sparkContext.setLogLevel("ERROR")  # the warnings are about plans
            found = gather(
                spark,
                source,
                with_lag=lag,
                retention_minutes=retention_minutes,
                on_step=status.update,
                options=further,
            )
        temporary = target.with_name(target.name + ".tmp")
        temporary.write_text(page(found), encoding="utf-8")
        temporary.replace(target)
    except KeyboardInterrupt as interruption:
        raise failed(f"interrupted; {target} was not written", INTERRUPTED) from interruption
    except OptionError as problem:
        raise failed(str(problem), 2) from problem
    except (AuditFailed, ClientError, MissingData, OSError) as problem:
        raise failed(str(problem)) from problem
    marked = sum(1 for each in found.audited if each.findings)
    say(f"wrote {target}: {counted(len(found.audited), 'group')}, {marked:,} with findings")
    if told_unknown_ends(found.audited):
        raise typer.Exit(1)

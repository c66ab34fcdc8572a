"""The command line `headgate`, with its commands."""

from __future__ import annotations

import inspect
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from headgate import __version__
from headgate.cli.configs import configs
from headgate.cli.consume import consume
from headgate.cli.consumer_groups import OptionalValues, consumer_groups
from headgate.cli.fleet import fleet
from headgate.cli.groups import groups
from headgate.cli.health import health
from headgate.cli.import_kafka import import_kafka
from headgate.cli.lag import lag
from headgate.cli.log import log
from headgate.cli.output import guarded_output, open_closed_streams
from headgate.cli.plain_errors import PlainErrors
from headgate.cli.produce import produce
from headgate.cli.report import report
from headgate.cli.serve import serve
from headgate.cli.settings import settings
from headgate.cli.share_groups import share_groups
from headgate.cli.spark import spark
from headgate.cli.topics import topics
from headgate.cli.transactions import transactions
from headgate.compiled import build_text

app = typer.Typer(
    cls=PlainErrors,
    name="headgate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(serve)
app.command()(settings)
app.command(name="import", no_args_is_help=True)(import_kafka)
app.command(no_args_is_help=True)(topics)
app.command(no_args_is_help=True)(configs)
app.command(no_args_is_help=True)(groups)
app.command(no_args_is_help=True)(produce)
app.command(no_args_is_help=True)(consume)
app.command()(lag)
app.command()(health)
app.add_typer(log)
spark.command(no_args_is_help=True)(report)
app.add_typer(spark)
app.add_typer(fleet)
app.command(cls=OptionalValues, no_args_is_help=True)(consumer_groups)
app.command(cls=OptionalValues, no_args_is_help=True)(share_groups)
app.add_typer(transactions)


def _join_lines(commands: typer.Typer) -> None:
    """Join the lines of each paragraph of the help texts: the width of the terminal says where they break."""
    for command in commands.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _join_lines(group.typer_instance)


_join_lines(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"headgate {__version__} ({build_text()})")
        raise typer.Exit


@app.callback()
def headgate(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, metavar="", help="Print the version."
        ),
    ] = False,
) -> None:
    """A consumer-group coordinator and embedded broker that speaks the Kafka protocol."""


def main() -> None:
    """Run the command line of this process."""
    open_closed_streams()
    if isinstance(sys.stderr, TextIOWrapper):  # names of files need not be valid in its encoding
        sys.stderr.reconfigure(errors="backslashreplace")
    with guarded_output():
        app(prog_name="headgate")

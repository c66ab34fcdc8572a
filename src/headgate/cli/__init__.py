"""The command line: `headgate serve` and what tools need beside it."""

from __future__ import annotations

import typer

from headgate.cli.log import log
from headgate.cli.serve import serve
from headgate.cli.settings import settings

app = typer.Typer(
    name="headgate",
    help="A consumer-group coordinator and embedded broker that speaks the Kafka protocol.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(serve)
app.command()(settings)
app.add_typer(log)


def main() -> None:
    """Run the command line of this process."""
    app()

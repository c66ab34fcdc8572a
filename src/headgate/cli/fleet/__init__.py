"""`headgate fleet`: look at all groups of a cluster, and reset many of them."""

from __future__ import annotations

import typer

from headgate.cli.fleet.audit import audit
from headgate.cli.fleet.reset import reset

fleet = typer.Typer(name="fleet", no_args_is_help=True, help="Look at all groups of a cluster; reset many.")
fleet.command(no_args_is_help=True)(audit)
fleet.command(no_args_is_help=True)(reset)


@fleet.callback()
def _fleet() -> None:
    """Look at all groups of a cluster, and reset many of them."""

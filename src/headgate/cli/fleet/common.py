"""What the commands of `headgate fleet` share."""

from __future__ import annotations

import typer

from headgate.cli.printing import say


def failed(message: str, code: int = 1) -> typer.Exit:
    """Print what went wrong; return the exception that ends the command."""
    say(message)
    return typer.Exit(code)

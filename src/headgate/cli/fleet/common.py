"""What the commands of `headgate fleet` share."""

from __future__ import annotations

import typer

from headgate.cli.consumer_groups.arguments import parse_duration
from headgate.cli.printing import say
from headgate.cli.usage_problem import UsageProblem


def duration(option: str, text: str) -> int:
    """Return a duration in ms. Raises `UsageProblem`."""
    try:
        return parse_duration(text)
    except UsageProblem:
        raise UsageProblem(f"{option} {text}: a duration is expected, as P7D, PT12H or P1DT2H3M4S") from None


def failed(message: str, code: int = 1) -> typer.Exit:
    """Print what went wrong; return the exception that ends the command."""
    say(message)
    return typer.Exit(code)

"""`--validate-regex`: a regular expression as coordinators read it. Needs no cluster."""

from __future__ import annotations

import typer


def validate_regex(text: str) -> int:
    """Say whether the expression is valid, and return the exit code."""
    from headgate.core.topic_pattern import InvalidPattern, compile_pattern

    found = compile_pattern(text)
    if isinstance(found, InvalidPattern):
        typer.echo(f"The regular expression `{text}` is invalid: {found.reason}.")
        return 1
    typer.echo(f"The regular expression `{text}` is valid.")
    return 0

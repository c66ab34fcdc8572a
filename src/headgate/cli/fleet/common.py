"""What the commands of `headgate fleet` share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from headgate.cli.incomplete import without_known_end
from headgate.cli.printing import say

if TYPE_CHECKING:
    from headgate.fleet import Audited


def failed(message: str, code: int = 1) -> typer.Exit:
    """Print what went wrong; return the exception that ends the command."""
    say(message)
    return typer.Exit(code)


def told_unknown_ends(audited: Iterable[Audited]) -> bool:
    """Say which partitions have no known end, so that no lag is known there. Return if there are any."""
    places = sorted({where for each in audited for where in each.facts.unknown_ends})
    if places:
        without = without_known_end([str(where) for where in places])
        say(f"{without}: no lag is known there; `headgate health` says why")
    return bool(places)

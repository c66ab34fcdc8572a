"""Tables of methods in the documents have the methods and the arguments of the Admin API."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from headgate.admin import Admin

DOCS = Path(__file__).parents[2] / "docs"
_CALL = re.compile(r"`(\w+)\(([^`]*)\)`")


def test_the_arguments_in_tables_are_those_of_the_methods() -> None:
    """A reader takes them for keywords."""
    calls = [
        (page.name, name, [one.strip().partition("=")[0] for one in arguments.split(",") if one.strip()])
        for page in sorted(DOCS.glob("*.md"))
        for line in page.read_text().splitlines()
        if line.startswith("|")
        for name, arguments in _CALL.findall(line.split("|")[1])
        if hasattr(Admin, name)
    ]
    wrong = [
        (page, name, argument)
        for page, name, arguments in calls
        for argument in arguments
        if argument not in inspect.signature(getattr(Admin, name)).parameters
    ]
    assert len(calls) > 20
    assert not wrong

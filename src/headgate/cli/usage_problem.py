"""The error of an invalid command line, and checks of options that belong together."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class UsageProblem(Exception):
    """An invalid command line. The message says what is expected."""


def option(name: str) -> str:
    """Return how an option is written on the command line, by the name of its field."""
    return "--" + name.replace("_", "-")


def check_at_most_one(given: Collection[str], names: Iterable[str]) -> None:
    """Raise `UsageProblem` if several of these options are given."""
    among = [name for name in names if name in given]
    if len(among) > 1:
        raise UsageProblem(f"{' and '.join(map(option, among))}: one of them is expected")


def one_of(given: Collection[str], names: Collection[str], hint: str) -> str:
    """Return which of these options is given. Raises `UsageProblem` unless it is exactly one."""
    check_at_most_one(given, names)
    for name in names:
        if name in given:
            return name
    *others, last = map(option, names)
    expected = f"{', '.join(others)} or {last}" if others else last
    raise UsageProblem(f"{expected} is expected{hint}")

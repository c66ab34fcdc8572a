"""Walks over an offset table that end well even where nobody walks them to their end.

A generator that is given up ends its `finally` when the interpreter lets go of it; one in a compiled module
does not. So what is to be let go of stands in here, and this module is not compiled.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Holdable(Protocol):
    """A table whose rows can be told to keep their numbers."""

    def hold(self) -> None:
        """Keep them until `release` has been called as often."""
        ...

    def release(self) -> None:
        """They may get others."""
        ...


def held(table: Holdable, steps: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same steps, during which rows keep their numbers."""
    table.hold()
    try:
        yield from steps
    finally:
        table.release()


def held_from_now(table: Holdable, steps: Generator[None, None, T]) -> Generator[None, None, T]:
    """The same steps; rows keep their numbers from now on, until the steps have ended or are given up."""
    walk = _begun(table, steps)
    next(walk)
    return walk


def _begun(table: Holdable, steps: Generator[None, None, T]) -> Generator[None, None, T]:
    table.hold()
    try:
        yield None
        return (yield from steps)
    finally:
        table.release()

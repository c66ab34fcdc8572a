"""Walks over an offset table that release the table also when they are abandoned.

The interpreter runs the `finally` of an abandoned generator when it frees the generator. It does not in a
compiled module, so this module is not compiled.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Holdable(Protocol):
    """A table that can keep its row numbers."""

    def hold(self) -> None:
        """Keep row numbers until `release` was called as many times."""
        ...

    def release(self) -> None:
        """Allow row numbers to change again."""
        ...


def held(table: Holdable, steps: Generator[T, None, None]) -> Generator[T, None, None]:
    """Run the steps; row numbers do not change until they end."""
    table.hold()
    try:
        yield from steps
    finally:
        table.release()


def held_from_now(table: Holdable, steps: Generator[None, None, T]) -> Generator[None, None, T]:
    """Run the steps; row numbers do not change from this call until the steps end or are closed."""
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

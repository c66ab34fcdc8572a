"""Generated Python source of one function. Each line belongs to a field.

The readers and writers of messages are flat functions without a call for each field. When a line fails, its
line number identifies the field for the error message. This costs nothing as long as no line fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packing
from typing import Any


class Source:
    """The lines of one function, and the objects that they refer to."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.namespace: dict[str, Any] = {}
        self._lines: list[str] = []
        self._places: list[str] = []
        self._path: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self._lines.append(" " * self._depth + text)
        self._places.append(".".join(self._path))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block, and indent the lines added in the context."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Assign the lines added in the context to this field."""
        self._path.append(name)
        yield
        self._path.pop()

    def fresh(self, stem: str) -> str:
        """Return an unused variable name."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: object) -> str:
        """Return a name for an object in the function's namespace."""
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.namespace[name] = value
        return name

    def packing(self, verb: str, layout: str) -> tuple[str, int]:
        """Return a name for `unpack_from` or `pack` of a big-endian layout, and its size in bytes."""
        name = f"{verb}_{layout.replace('?', 'o')}"
        packing = Packing(">" + layout)
        self.namespace.setdefault(name, getattr(packing, verb))
        return name, packing.size

    def compile(self, name: str) -> Any:
        """Compile the lines. Return the function of this name."""
        exec(compile("\n".join(self._lines), f"<{self.title}>", "exec"), self.namespace)
        return self.namespace[name]

    def place_of(self, error: BaseException) -> str:
        """Return title and dotted path of the field whose line raised the error, or the title only."""
        place = ""
        if error.__traceback__ is not None:
            place = self._places[error.__traceback__.tb_lineno - 1]
        return f"{self.title}: {place}" if place else self.title

    def __str__(self) -> str:
        return "\n".join(self._lines)

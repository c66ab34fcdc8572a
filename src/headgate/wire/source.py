"""Generated Python source: lines that know which field they are for, compiled into one function.

The reader and the writer of a message are flat functions without a call per field. When one of their lines
fails, its number tells the field; so a refusal names the field, and that costs nothing while nothing fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packing
from typing import Any


class Source:
    """Collects the lines of one function, and the objects they refer to."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.namespace: dict[str, Any] = {}
        self._lines: list[str] = []
        self._places: list[str] = []
        self._path: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self._lines.append(" " * self._depth + text)
        self._places.append(".".join(self._path))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block, and indent what is added meanwhile."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Mark what is added meanwhile as the doing of this field."""
        self._path.append(name)
        yield
        self._path.pop()

    def fresh(self, stem: str) -> str:
        """A variable name not used before."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: object) -> str:
        """A name by which the function finds an object."""
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.namespace[name] = value
        return name

    def packing(self, verb: str, layout: str) -> tuple[str, int]:
        """The name of `unpack_from` or `pack` for a big-endian layout, and the layout's size in bytes."""
        name = f"{verb}_{layout.replace('?', 'o')}"
        packing = Packing(">" + layout)
        self.namespace.setdefault(name, getattr(packing, verb))
        return name, packing.size

    def compile(self, name: str) -> Any:
        """The function of this name that the lines define."""
        exec(compile("\n".join(self._lines), f"<{self.title}>", "exec"), self.namespace)
        return self.namespace[name]

    def place_of(self, error: BaseException) -> str:
        """The field whose line raised the error, as a dotted path; the title if it was none's."""
        place = ""
        if error.__traceback__ is not None:
            place = self._places[error.__traceback__.tb_lineno - 1]
        return f"{self.title}: {place}" if place else self.title

    def __str__(self) -> str:
        return "\n".join(self._lines)

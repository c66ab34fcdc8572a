"""The core has no inputs but its arguments: no clock, no sockets, no disk, no randomness."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import headgate.core

FORBIDDEN = frozenset(
    {"asyncio", "socket", "time", "datetime", "random", "uuid", "os", "logging", "threading", "secrets"}
)
ROOT = Path(headgate.core.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def imported(source: str) -> set[str]:
    """The top-level packages that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name) and node.id == "__import__":
            found.add("__import__")
    return found


def test_there_are_modules_to_check() -> None:
    """Otherwise the test below would prove nothing."""
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_core_imports_a_forbidden_one(path: Path) -> None:
    """Time is an argument, and ids are part of commands."""
    assert not imported(path.read_text()) & (FORBIDDEN | {"__import__", "importlib"})


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "def f():\n    import os.path",
        "from datetime import datetime",
    ],
)
def test_the_check_finds_forbidden_imports(source: str) -> None:
    """At the top level and inside functions."""
    assert imported(source) & FORBIDDEN

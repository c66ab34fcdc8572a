"""The modules that are compiled where there is a compiler, and what they must not have in them."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from headgate.compiled import is_compiled

PROJECT = Path(__file__).parents[2]
HOOK = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
MODULES: list[str] = HOOK["hooks"]["custom"]["compiled"]


def dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse((PROJECT / "src" / path).read_text())


def endings_in_generators(tree: ast.Module) -> Iterator[ast.stmt]:
    """What a generator is to do when it ends, from around a place where it may be left."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for part in ast.walk(function):
                ends = isinstance(part, ast.With) or (isinstance(part, ast.Try) and part.finalbody)
                if ends and any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(part)):
                    assert isinstance(part, ast.stmt)
                    yield part


@pytest.mark.parametrize("path", MODULES)
def test_no_generator_has_to_be_ended(path: str) -> None:
    """A compiled generator that is given up halfway never gets to its `finally`, nor out of its `with`."""
    tree = parsed(path)
    assert [part.lineno for part in endings_in_generators(tree)] == []


def test_such_a_generator_is_noticed() -> None:
    tree = ast.parse("def walk():\n    try:\n        yield 1\n    finally:\n        release()\n")
    assert [part.lineno for part in endings_in_generators(tree)] == [2]


READ_AT_ONCE = {
    *("all", "any", "dict", "frozenset", "list", "max", "min", "next", "set", "sorted", "sum", "tuple"),
    *("difference_update", "extend", "from_iterable", "fromkeys", "join", "subtract", "update"),
}
"""What reads what it is given before it returns."""


def generators_that_are_kept(tree: ast.Module) -> Iterator[ast.GeneratorExp]:
    """Generator expressions that are not read where they are written."""
    read = [
        argument
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and (call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", ""))
        in READ_AT_ONCE
        for argument in call.args
    ]
    read += [part.value for part in ast.walk(tree) if isinstance(part, ast.Starred)]
    for part in ast.walk(tree):
        if isinstance(part, ast.GeneratorExp) and part not in read:
            yield part


@pytest.mark.parametrize("path", MODULES)
def test_no_generator_expression_is_read_later(path: str) -> None:
    """Compiled, it is a list with the values at the time it is written."""
    tree = parsed(path)
    assert [part.lineno for part in generators_that_are_kept(tree)] == []


@pytest.mark.parametrize("line", ["kept = (a for a in all_of_them)", "parts_of(a for a in all_of_them)"])
def test_such_an_expression_is_noticed(line: str) -> None:
    assert len(list(generators_that_are_kept(ast.parse(line)))) == 1


def names_in(parts: Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    return {
        part.id
        for tree in parts
        for part in ast.walk(tree)
        if isinstance(part, ast.Name) and isinstance(part.ctx, context)
    }


def loops_that_set_what_they_walk(tree: ast.Module) -> Iterator[ast.For]:
    """Loops over a variable, or a range up to one, that give it another value meanwhile."""
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For):
            arguments = {part.arg for part in ast.walk(loop.iter) if isinstance(part, ast.arg)}
            walked = names_in([loop.iter], ast.Load) - names_in([loop.iter], ast.Store) - arguments
            if walked & names_in([loop.target, *loop.body], ast.Store):
                yield loop


def test_no_loop_sets_what_it_walks() -> None:
    """Compiled, a loop goes on with the new value of its variable, and not with the one it began with."""
    found = [(path, loop.lineno) for path in MODULES for loop in loops_that_set_what_they_walk(parsed(path))]
    assert found == []


@pytest.mark.parametrize(
    ("head", "is_noticed"),
    [
        ("in some", True),
        ("in range(some)", True),
        ("in others", False),
        ("in [some for some in others]", False),
    ],
)
def test_such_a_loop_is_noticed(head: str, is_noticed: bool) -> None:
    tree = ast.parse(f"for one {head}:\n    some = after(one)\n")
    assert len(list(loops_that_set_what_they_walk(tree))) == is_noticed


def stops_in_generators(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls of `next` without a default in generators."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            parts = list(ast.walk(function))
            if any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in parts):
                for part in parts:
                    if isinstance(part, ast.Call) and ast.unparse(part.func) == "next" and len(part.args) < 2:
                        yield part


def test_no_generator_may_end_by_accident() -> None:
    """Compiled, a StopIteration from `next` ends the generator around it, and is no RuntimeError."""
    assert [(path, call.lineno) for path in MODULES for call in stops_in_generators(parsed(path))] == []


def test_such_a_call_is_noticed() -> None:
    tree = ast.parse("def walk(others):\n    yield next(others)\n    yield next(others, None)\n")
    assert [part.lineno for part in stops_in_generators(tree)] == [2]


def fields_by_accident(tree: ast.Module) -> Iterator[ast.Assign]:
    """Attributes of dataclasses that are set without an annotation."""
    for part in ast.walk(tree):
        if isinstance(part, ast.ClassDef) and "dataclass" in "".join(map(ast.unparse, part.decorator_list)):
            yield from (line for line in part.body if isinstance(line, ast.Assign))


def test_no_dataclass_has_a_field_by_accident() -> None:
    """Compiled, every attribute that the class sets is annotated, and a field of the dataclass then."""
    assert [(path, line.lineno) for path in MODULES for line in fields_by_accident(parsed(path))] == []


def test_such_a_field_is_noticed() -> None:
    tree = ast.parse("@dataclass(eq=False)\nclass Moved:\n    at: int\n    __hash__ = None\n")
    assert [line.lineno for line in fields_by_accident(tree)] == [4]


def exceptions_of_several_types(tree: ast.Module) -> Iterator[ast.ExceptHandler]:
    """Where a function catches an exception under a name that it has for one of another type."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            types: dict[str, str] = {}
            for part in ast.walk(function):
                if isinstance(part, ast.ExceptHandler) and part.name and part.type is not None:
                    caught = ast.unparse(part.type)
                    if types.setdefault(part.name, caught) != caught:
                        yield part


@pytest.mark.parametrize("path", MODULES)
def test_a_name_is_of_one_type_of_exceptions(path: str) -> None:
    """Compiled, a variable has the type it has first: an exception of another one is a TypeError instead."""
    tree = parsed(path)
    assert [part.lineno for part in exceptions_of_several_types(tree)] == []


def test_such_a_name_is_noticed() -> None:
    tree = ast.parse(
        "def read():\n    try:\n        look()\n"
        "    except KeyError as one:\n        pass\n    except OSError as one:\n        pass\n"
    )
    assert [part.lineno for part in exceptions_of_several_types(tree)] == [6]


def bases(path: Path) -> Iterator[tuple[str, str]]:
    """Return each class of a module with the full name of each of its bases that is imported."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name: f"{part.module}.{alias.name}"
        for part in ast.walk(tree)
        if isinstance(part, ast.ImportFrom)
        for alias in part.names
    }
    for part in ast.walk(tree):
        if isinstance(part, ast.ClassDef):
            yield from (
                (part.name, imported[name]) for base in part.bases if (name := ast.unparse(base)) in imported
            )


def test_no_class_of_source_has_a_compiled_base() -> None:
    """A compiled method takes no object of a class that was not compiled with it: `raise` of such an
    exception is a TypeError.
    """
    compiled = {
        f"{dotted(path)}.{part.name}"
        for path in MODULES
        for part in ast.walk(parsed(path))
        if isinstance(part, ast.ClassDef)
    }
    interpreted = [
        path
        for path in (PROJECT / "src").rglob("*.py")
        if str(path.relative_to(PROJECT / "src")) not in MODULES
    ]
    assert interpreted and compiled
    found = [
        (path.name, name, base) for path in interpreted for name, base in bases(path) if base in compiled
    ]
    assert found == []


IMPORT_EACH_FIRST = """
import asyncio, logging, os, ssl, sys
import crc32c, numpy  # what most modules need, and what takes most of the time

for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        assert not any(one.partition(".")[0] == "headgate" for one in sys.modules)
        __import__(name)
        sys.exit()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"{name} cannot be imported first")
    print(name, flush=True)  # not in the buffer of the next child
"""
"""Imports each module in a process that has no other one of ours. What it prints, it imported."""


@pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")
def test_any_compiled_module_may_be_the_first_to_be_imported() -> None:
    """Whatever order modules are imported in, all that one names when it is imported is there."""
    for path in MODULES:
        spec = find_spec(dotted(path))
        assert spec is not None and spec.origin is not None
        assert not spec.origin.endswith(".py"), f"{path} is not compiled"
    command = [sys.executable, "-c", IMPORT_EACH_FIRST, *map(dotted, MODULES)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == [dotted(path) for path in MODULES]

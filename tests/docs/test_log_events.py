"""The page of log lines has every event that the server logs, with its level, and no other."""

from __future__ import annotations

import ast
import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from headgate.runtime.failures import on_loop_exception
from headgate.server.log_lines import JsonFormatter

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/headgate"
PAGE = (ROOT / "docs/log-events.md").read_text()
ROOMS = ("api", "core", "history", "log", "runtime", "server", "topics")
"""Rooms of the server: what commands print is not in its log."""
LEVELS = {"error": "Errors", "warning": "Warnings", "info": "Ordinary life", "debug": "Ordinary life"}
PASSED_ON = {
    "_fail": "error",
    "_log_problem": "error",
    "_write_failed": "error",
    "failed": "error",
    "log_change": "info",
}
"""Functions that log the event which they are given, as their first or second argument, and its level."""
CHOSEN = {
    "info": {"topic created", "topic extended", "member removed", "a stored setting is in force"}
    | {"a new data directory was begun", "the cluster got an id"},
    "warning": {"member has not rejoined", "member has not synced", "member removed"}
    | {"a stored setting is in force"},
}
"""Events that are chosen between, or whose level is."""
RESERVED = {"time", "level", "logger", "event", "trace"}
"""Names of every JSON line."""


@cache
def calls() -> list[tuple[ast.Call, str]]:
    """Return the calls of the server's modules, with the name of what is called."""
    modules = [module for room in ROOMS for module in sorted((SOURCE / room).rglob("*.py"))]
    return [
        (node, node.func.id if isinstance(node.func, ast.Name) else node.func.attr)
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    ]


def is_of_a_logger(call: ast.Call) -> bool:
    """Tell whether a method of a logger is called."""
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).endswith("logger")


def logged() -> Iterator[tuple[str, str]]:
    """Yield each event in the source with its level; a placeholder ends it."""
    for call, name in calls():
        level = name if is_of_a_logger(call) else PASSED_ON.get(name)
        for argument in call.args[:2] if level in LEVELS else ():
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                assert level is not None
                yield argument.value.partition("%")[0].rstrip(": "), level
    for level, events in CHOSEN.items():
        for event in events:
            yield event, level


def told(section: str) -> set[str]:
    """Return the events in the first cells of a section's table."""
    rows = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines()
    cells = [row.split(" | ")[0] for row in rows if row.startswith("| `")]
    return {event.removesuffix(": ...") for cell in cells for event in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("section", sorted(set(LEVELS.values())))
def test_a_section_has_the_events_of_its_level_and_no_other(section: str) -> None:
    """Who sees a line looks here for what it means and what to do."""
    events = {event for event, level in logged() if LEVELS[level] == section}
    assert len(events) > 15
    assert told(section) == events


def test_no_field_takes_the_place_of_what_every_line_has() -> None:
    """A field `event` would replace that of a JSON line, and a name with a space breaks a line of text."""
    extras = [word.value for call, _ in calls() for word in call.keywords if word.arg == "extra"]
    parts = [part for extra in extras for part in ast.walk(extra) if isinstance(part, ast.Dict)]
    fields = {key.value for part in parts for key in part.keys if isinstance(key, ast.Constant)}
    assert len(fields) > 40
    assert {name for name in fields if name in RESERVED or not re.fullmatch("[a-z_]+", str(name))} == set()


def test_an_error_of_the_loop_keeps_its_event_in_json(caplog: pytest.LogCaptureFixture) -> None:
    """What the loop says is a field of its own."""
    with caplog.at_level(logging.WARNING), closing(asyncio.new_event_loop()) as loop:
        on_loop_exception(loop, {"message": "accept failed", "exception": OSError(24, "x")})
    line = JsonFormatter().format(caplog.records[-1])
    assert '"event": "the event loop reported an error"' in line
    assert '"what": "accept failed"' in line

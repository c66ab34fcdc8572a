"""Log lines: text from clients neither makes them long nor imitates other lines."""

from __future__ import annotations

import importlib
import json
import logging
from typing import Any

import pytest

from headgate.server.log_lines import (
    AREAS,
    LONGEST_EVENT,
    LONGEST_VALUE,
    InvalidLevel,
    JsonFormatter,
    LogLevels,
    TextFormatter,
)


def record(message: str, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("headgate", logging.WARNING, "file", 1, message, (), None)
    vars(made).update(fields)
    return made


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_long_strings_are_cut_and_their_length_is_reported(formatter: logging.Formatter) -> None:
    """This holds for fields and events in every format."""
    line = formatter.format(record("e" * 40_000, client="c" * 32_767, count=5))
    assert len(line) < LONGEST_EVENT + LONGEST_VALUE + 300
    assert "(32767 characters)" in line
    assert "(40000 characters)" in line


def test_a_line_stays_one_line() -> None:
    """Line ends, escapes and other unprintable characters are escaped as in JSON."""
    line = TextFormatter().format(record("closed", client="a\r\nb\x1b[31m\u2028", plain="x"))
    assert line.isprintable()
    assert 'client="a\\r\\nb\\u001b[31m\\u2028" plain=x' in line


def test_numbers_stay_numbers_in_json() -> None:
    """A reader of the log gets numbers as JSON numbers."""
    line = json.loads(JsonFormatter().format(record("done", seconds=0.5, count=3, nothing=None, one=[1])))
    assert (line["seconds"], line["count"], line["nothing"], line["one"]) == (0.5, 3, None, "[1]")


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("debug", LogLevels("debug", {})),
        ("groups=warning", LogLevels("info", {"groups": "warning"})),
        ("error, topics=info,groups=debug", LogLevels("error", {"topics": "info", "groups": "debug"})),
    ],
)
def test_levels_may_differ_by_area(text: str, levels: LogLevels) -> None:
    """The general level is info unless it is given."""
    assert LogLevels.parse(text) == levels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "debug, info, warning or error is expected"),
        ("info,loud", "debug, info, warning or error is expected"),
        ("groups=", "debug, info, warning or error is expected"),
        ("cats=info", "there is no area cats; the areas are administration, checkpoints,"),
    ],
)
def test_unknown_levels_and_areas_are_refused(text: str, message: str) -> None:
    """With what is expected."""
    with pytest.raises(InvalidLevel, match=message):
        LogLevels.parse(text)


def test_every_area_has_loggers_that_exist() -> None:
    """A level for a module that was renamed would have no effect."""
    for names in AREAS.values():
        for name in names:
            assert importlib.import_module(name).logger.name == name

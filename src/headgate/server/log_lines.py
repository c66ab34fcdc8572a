"""Structured log lines: one line per event, the event first, then its fields as key=value.

2026-11-20T23:40:01.123Z WARN  connection closed peer=127.0.0.1:40412 reason="frame of 2 GiB"

Text from clients may be long and may hold any character. This module, and no other, cuts it and quotes it, so
that it cannot be taken for another line or field.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}


LONGEST_EVENT = 1000
LONGEST_VALUE = 500
"""In characters. A longer text is cut, and its length is appended."""
LONGEST_TRACE = 20_000


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {
        name: value if value is None or isinstance(value, (int, float)) else _cut(str(value), LONGEST_VALUE)
        for name, value in vars(record).items()
        if name not in _STANDARD
    }


def _event(record: logging.LogRecord) -> str:
    return _cut(record.getMessage(), LONGEST_EVENT)


def _timestamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _quoted(value: object) -> str:
    text = str(value)
    is_plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if text and is_plain else json.dumps(text)


class TextFormatter(logging.Formatter):
    """Lines for people: time, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        level = _LEVELS.get(record.levelname, record.levelname)
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        trace = "\n" + _cut(self.formatException(record.exc_info), LONGEST_TRACE) if record.exc_info else ""
        event = _event(record)
        return (
            f"{_timestamp(record)} {level:<5} {event if event.isprintable() else repr(event)}{fields}{trace}"
        )


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the same content."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "time": _timestamp(record),
            "level": _LEVELS.get(record.levelname, record.levelname),
            "logger": record.name,
            "event": _event(record),
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = _cut(self.formatException(record.exc_info), LONGEST_TRACE)
        return json.dumps(line, default=str)


LEVELS = ("debug", "info", "warning", "error")
AREAS: Mapping[str, tuple[str, ...]] = {
    "administration": ("headgate.api.administration",),
    "checkpoints": ("headgate.runtime.checkpoints",),
    "compaction": ("headgate.runtime.compaction",),
    "connections": ("headgate.server.connection", "headgate.server.listener"),
    "groups": ("headgate.server.event_log",),
    "topics": ("headgate.server.topic_log", "headgate.topics.partition"),
    "transactions": ("headgate.api.k22_init_producer_id",),
}
"""The loggers of each area that can have a level of its own."""


class InvalidLevel(ValueError):
    """A level or an area that does not exist. The message says what is expected."""


class LogLevels(NamedTuple):
    """From which level on lines are written, in general and by area."""

    level: str
    by_area: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> LogLevels:
        """Parse `info` or `info,groups=warning,compaction=debug`. Raises InvalidLevel."""
        level, by_area = "info", {}
        for part in text.split(","):
            area, equals, name = part.strip().rpartition("=")
            if name not in LEVELS:
                raise InvalidLevel(f"{_either(LEVELS)} is expected")
            if not equals:
                level = name
            elif area in AREAS:
                by_area[area] = name
            else:
                raise InvalidLevel(f"there is no area {area}; the areas are {', '.join(AREAS)}")
        return cls(level, by_area)


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def configure(levels: LogLevels, as_json: bool) -> None:
    """Send the log of this process to standard error, from these levels on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(levels.level.upper())
    for area, level in levels.by_area.items():
        for name in AREAS[area]:
            logging.getLogger(name).setLevel(level.upper())

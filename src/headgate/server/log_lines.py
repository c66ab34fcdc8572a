"""Structured log lines: one line an event, the event first, then what is known of it as key=value.

2026-11-20T23:40:01.123Z WARN  connection closed peer=127.0.0.1:40412 reason="frame of 2 GiB"
"""

from __future__ import annotations

import json
import logging
import time

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _timestamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c in text for c in ' "=\n') else text


class TextFormatter(logging.Formatter):
    """Lines for people: time, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        level = _LEVELS.get(record.levelname, record.levelname)
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        trace = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        return f"{_timestamp(record)} {level:<5} {record.getMessage()}{fields}{trace}"


class JsonFormatter(logging.Formatter):
    """The same, one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _timestamp(record),
            "level": _LEVELS.get(record.levelname, record.levelname),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str, as_json: bool) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())

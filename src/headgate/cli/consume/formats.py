"""Records as text in the format of Kafka's console consumer, as JSON lines, or as CSV."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import BinaryIO

from headgate.admin.csv_rows import csv_writer
from headgate.cli.usage_problem import UsageProblem
from headgate.client.records import ConsumedRecord

_PROPERTIES = {
    "print.timestamp": "false",
    "print.key": "false",
    "print.offset": "false",
    "print.epoch": "false",
    "print.partition": "false",
    "print.headers": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")

Print = Callable[[ConsumedRecord], None]


def printer(output: str, given: list[str]) -> Print:
    """Return what prints a record on standard output. Raises `UsageProblem` for an invalid property."""
    properties = dict(_PROPERTIES)
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name not in properties:
            known = ", ".join(properties)
            raise UsageProblem(f"--property {text}: NAME=VALUE is expected, NAME being one of {known}")
        properties[name] = value
    if output == "json":
        return lambda record: print(json.dumps(_document(record)))
    if output == "csv":
        return _csv_printer()
    if output != "text":
        raise UsageProblem(f"--output {output}: text, json or csv is expected")
    stream = sys.stdout.buffer
    return lambda record: _write(stream, record, properties)


def _write(stream: BinaryIO, record: ConsumedRecord, properties: dict[str, str]) -> None:
    """Write a record in Kafka's format. The bytes are those of the record: names of files are no text."""
    null = _bytes(properties["null.literal"])
    kind = "LogAppendTime" if record.is_append_time else "CreateTime"
    time = b"NO_TIMESTAMP" if record.timestamp < 0 else f"{kind}:{record.timestamp}".encode()
    between = _bytes(properties["headers.separator"])
    headers = between.join(name + b":" + (null if value is None else value) for name, value in record.headers)
    parts = {
        "print.timestamp": time,
        "print.partition": f"Partition:{record.where.partition}".encode(),
        "print.offset": f"Offset:{record.offset}".encode(),
        "print.epoch": f"Epoch:{record.leader_epoch}".encode(),
        "print.headers": headers or b"NO_HEADERS",
        "print.key": null if record.key is None else record.key,
        "print.value": null if record.value is None else record.value,
    }
    wanted = [text for name, text in parts.items() if properties[name].lower() == "true"]
    stream.write(_bytes(properties["key.separator"]).join(wanted) + _bytes(properties["line.separator"]))


def _bytes(text: str) -> bytes:
    """Return the bytes of a word of the command line, which is any bytes."""
    return text.encode("utf-8", "surrogateescape")


def _document(record: ConsumedRecord) -> dict[str, object]:
    return {
        "topic": record.where.topic,
        "partition": record.where.partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp < 0 else record.timestamp,
        "timestamp_type": "LogAppendTime" if record.is_append_time else "CreateTime",
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"key": _text(name), "value": _text(value)} for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text; those that are not UTF-8 as `{"base64": ...}`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _csv_printer() -> Print:
    writer = csv_writer(sys.stdout)
    writer.writerow(_COLUMNS)

    def write(record: ConsumedRecord) -> None:
        document = _document(record)
        cells = (document[name] for name in _COLUMNS)
        writer.writerow([json.dumps(one) if isinstance(one, dict | list) else one for one in cells])

    return write

"""What a reader can be told, and the refusal of anything else.

Names are those of Spark's Kafka connector where it has one. Spark hands options on without regard to case, so
their names are compared without it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

EARLIEST = -2
LATEST = -1

_ADDRESSES = re.compile(r"[^/,\s]+:\d+(,[^/,\s]+:\d+)*")
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class OptionError(ValueError):
    """An option that does not exist, has no such value, or does not go with another."""


NAMES = {
    "path": "the data directory of a broker (or a copy of it); this or bootstrap.servers",
    "bootstrap.servers": "HOST:PORT[,HOST:PORT...] of a Headgate node or of Apache Kafka",
    "topic": "the topic to read",
    "startingOffsets": 'earliest (default), or JSON {"topic": {"0": 23, "1": -2}}, -2 being earliest',
    "endingOffsets": 'latest (default), or JSON {"topic": {"0": 50, "1": -1}}, -1 being latest; exclusive',
    "columns": "comma-separated names: only these columns are decoded, in this order (default: all)",
    "minPartitions": "read with at least so many tasks (default: one for each core of the driver's machine)",
    "maxBytesPerTask": "with path: a task reads at most so many bytes, if segments allow (256m; k, m, g)",
    "failOnCorrupt": "true (default): fail at a batch that cannot be read; false: skip it and say so",
    "failOnDataLoss": "true (default): fail when offsets asked for by number are not in the log",
}
"""Every option, with its meaning: the manual's table is this one."""

Offsets = Mapping[int, int]
"""Offsets asked for, by partition: a number, `EARLIEST` or `LATEST`."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one read, checked. Exactly one of `path` and `bootstrap_servers` is set."""

    topic: str
    path: Path | None = None
    bootstrap_servers: str | None = None
    starting_offsets: Offsets | None = None
    ending_offsets: Offsets | None = None
    columns: tuple[str, ...] | None = None
    min_partitions: int = 1
    max_bytes_per_task: int = 256 << 20
    fail_on_corrupt: bool = True
    fail_on_data_loss: bool = True


def parse(given: Mapping[str, str], topic: str | None = None) -> Options:
    """Check the options of a read; `topic` is set for the readers that always read the same one."""
    by_name = {name.lower(): name for name in NAMES}
    values: dict[str, str] = {}
    for key, value in given.items():
        name = by_name.get(key.lower())
        if name is None:
            raise OptionError(f"headgate has no option {key!r}{_nearest(key, NAMES)}")
        values[name] = value
    if topic is not None and values.setdefault("topic", topic) != topic:
        raise OptionError(f"this reader reads {topic} only, not topic {values['topic']!r}")
    topic = values.get("topic")
    if not topic:
        raise OptionError("option topic is missing: the topic to read")
    _check_source(values)
    path = values.get("path")
    columns = values.get("columns")
    return Options(
        topic=topic,
        path=Path(path) if path else None,
        bootstrap_servers=values.get("bootstrap.servers"),
        starting_offsets=_offsets("startingOffsets", values.get("startingOffsets", "earliest"), topic),
        ending_offsets=_offsets("endingOffsets", values.get("endingOffsets", "latest"), topic),
        columns=None if columns is None else tuple(name.strip() for name in columns.split(",")),
        min_partitions=_count("minPartitions", values.get("minPartitions", str(cores()))),
        max_bytes_per_task=_size("maxBytesPerTask", values.get("maxBytesPerTask", "256m")),
        fail_on_corrupt=_truth("failOnCorrupt", values.get("failOnCorrupt", "true")),
        fail_on_data_loss=_truth("failOnDataLoss", values.get("failOnDataLoss", "true")),
    )


def source_option(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The option that names a source: HOST:PORT[,...] is a cluster, anything else a data directory."""
    if isinstance(source, str) and _ADDRESSES.fullmatch(source):
        return "bootstrap.servers", source
    return "path", os.fspath(source)


def choose_columns(names: tuple[str, ...] | None, available: list[str]) -> list[str]:
    """The columns to decode, in order; all when none were named."""
    if names is None:
        return available
    for name in names:
        if name not in available:
            raise OptionError(f"option columns: there is no column {name!r}{_nearest(name, available)}")
    if len(set(names)) != len(names):
        raise OptionError("option columns: a column is named twice")
    return list(names)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_source(values: Mapping[str, str]) -> None:
    path, servers = values.get("path"), values.get("bootstrap.servers")
    if not path and not servers:
        raise OptionError("option path (a data directory) or bootstrap.servers (HOST:PORT) is missing")
    if path and servers:
        raise OptionError("options path and bootstrap.servers exclude each other")
    if servers is not None and not _ADDRESSES.fullmatch(servers):
        raise OptionError(f"option bootstrap.servers: {servers!r} is not HOST:PORT[,HOST:PORT...]")
    if servers and "maxBytesPerTask" in values:
        raise OptionError(
            "option maxBytesPerTask goes with path only: a cluster does not tell sizes; use minPartitions"
        )


def _nearest(name: str, known: Mapping[str, str] | list[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {by_lower[near[0]]!r}?"
    return f"; there are {', '.join(known)}"


def _offsets(name: str, text: str, topic: str) -> Offsets | None:
    everything, word = (EARLIEST, "earliest") if name == "startingOffsets" else (LATEST, "latest")
    if text.strip().lower() == word:
        return None
    if not text.lstrip().startswith("{"):
        raise OptionError(f"option {name}: {text!r} is neither {word} nor JSON like {_EXAMPLE}")
    try:
        parsed = json.loads(text)
        by_partition = {int(partition): int(offset) for partition, offset in parsed.pop(topic).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise OptionError(f"option {name}: {text!r} is not like {_EXAMPLE} for topic {topic!r}") from problem
    if parsed:
        raise OptionError(f"option {name} names topics that are not read: {', '.join(sorted(parsed))}")
    for partition, offset in by_partition.items():
        if offset < 0 and offset != everything:
            raise OptionError(
                f"option {name}: {offset} for partition {partition}, but only {everything} ({word}) may be "
                "negative"
            )
    return by_partition


_EXAMPLE = '{"topic": {"0": 23}}'


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"option {name}: {text!r} is not a whole number of 1 or more")
    return int(text)


def _size(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    if not match or int(match[1]) < 1:
        raise OptionError(f"option {name}: {text!r} is not a size such as 67108864 or 64m")
    return int(match[1]) * _SIZES[match[2]]


def _truth(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"option {name}: {text!r} is neither true nor false")
    return text.strip().lower() == "true"

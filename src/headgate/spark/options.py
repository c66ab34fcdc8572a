"""The options of the readers, and their validation.

Options have the names of Spark's Kafka source where it has them; names of earlier releases remain as aliases.
Spark ignores the case of option names, so they are compared without it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from headgate.client.security import NOT_SECURED, Security, SecurityProblem, is_of_security
from headgate.domain.ids import TopicName, TopicPartition

EARLIEST = -2
LATEST = -1

_ADDRESSES = re.compile(r"[^/,\s]+:\d+(,[^/,\s]+:\d+)*")
_PREFIX = "kafka."
"""The prefix of Kafka's properties: those of TLS and SASL are taken as `--command-config` has them."""
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class OptionError(ValueError):
    """An option is unknown, has an invalid value, or conflicts with another one."""


NAMES = {
    "path": "the data directory of a broker (or a copy of it); this or kafka.bootstrap.servers",
    "kafka.bootstrap.servers": "HOST:PORT[,HOST:PORT...] of a Headgate node or of Apache Kafka",
    "subscribe": "the topics to read, separated by commas; or subscribePattern, or assign",
    "subscribePattern": "a regular expression that matches the whole names of the topics to read",
    "assign": 'the partitions to read, as JSON {"topic": [0, 1]}',
    "startingOffsets": 'earliest (default), or JSON {"topic": {"0": 23, "1": -2}}, -2 being earliest',
    "endingOffsets": 'latest (default), or JSON {"topic": {"0": 50, "1": -1}}, -1 being latest; exclusive',
    "includeHeaders": "true (default): the table has the column headers",
    "isolationLevel": "read_uncommitted (default), or read_committed: no records of open and aborted "
    "transactions; also kafka.isolation.level, its name in Spark's Kafka source",
    "columns": "comma-separated names: only these columns are decoded, in this order (default: all)",
    "minPartitions": "read with at least so many tasks (default: one for each core of the driver's machine)",
    "maxBytesPerTask": "with path: a task reads at most so many bytes (256m; k, m, g)",
    "timeout": "with kafka.bootstrap.servers: how long a call may take, its repetitions included (60s; ms, "
    "s, m; a number alone is seconds)",
    "failOnCorrupt": "true (default): fail at a batch that cannot be read; false: skip it and say so",
    "failOnDataLoss": "true (default): fail when offsets asked for by number are not in the log",
}
"""Every option and its meaning; the manual has the same table."""

ALIASES = {
    "bootstrap.servers": "kafka.bootstrap.servers",
    "topic": "subscribe",
    "kafka.isolation.level": "isolationLevel",
}
"""Other names of options: those of earlier releases, and of Spark's Kafka source."""

_TOPIC_OPTIONS = ("subscribe", "subscribePattern", "assign")

Offsets = Mapping[TopicPartition, int]
"""Requested offsets: a number, `EARLIEST` or `LATEST`."""


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics of a read: by name, by a pattern of names, or as single partitions. Exactly one is set."""

    names: tuple[TopicName, ...] = ()
    pattern: str | None = None
    partitions: Mapping[TopicName, tuple[int, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics like {self.pattern}"
        return ", ".join(self.names or self.partitions)

    @property
    def required(self) -> tuple[TopicName, ...]:
        """Return the topics that must exist."""
        return self.names or tuple(self.partitions)

    def among(self, available: Iterable[str]) -> list[TopicName]:
        """Return the topics to read, in order, of the available ones."""
        if self.pattern is None:
            there = set(available)
            return [name for name in self.required if name in there]
        matches: Callable[[str], object] = re.compile(self.pattern).fullmatch
        return [TopicName(name) for name in sorted(available) if matches(name) and not name.startswith("__")]

    def partitions_of(self, topic: TopicName, available: Iterable[int]) -> list[int]:
        """Return the partitions of a topic to read, in order, of the available ones."""
        chosen = self.partitions.get(topic)
        return sorted(set(available) if chosen is None else set(available) & set(chosen))


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of one read. Exactly one of `path` and `bootstrap_servers` is set."""

    topics: TopicChoice
    path: Path | None = None
    bootstrap_servers: str | None = None
    starting_offsets: Offsets = field(default_factory=dict)
    ending_offsets: Offsets = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    include_headers: bool = True
    is_committed_only: bool = False
    """`read_committed`: records of open and aborted transactions are left out."""
    min_partitions: int = 1
    max_bytes_per_task: int = 256 << 20
    timeout_s: float = 60.0
    fail_on_corrupt: bool = True
    fail_on_data_loss: bool = True
    security: Security = NOT_SECURED

    def check_partitions(self, available: Iterable[TopicPartition]) -> None:
        """Refuse offsets of partitions that are not read. Raises OptionError."""
        there = set(available)
        for name, offsets in (
            ("startingOffsets", self.starting_offsets),
            ("endingOffsets", self.ending_offsets),
        ):
            if strangers := sorted(str(where) for where in offsets if where not in there):
                raise OptionError(f"option {name} names partitions that do not exist: {', '.join(strangers)}")


def parse(given: Mapping[str, str], topic: str | None = None, others: Iterable[str] = ()) -> Options:
    """Check the options of a read. Raises OptionError.

    `topic` is set for readers of a fixed topic. `others` are names that an error can suggest, too.
    """
    secured = {
        key: value for key, value in given.items() if is_of_security(key.lower().removeprefix(_PREFIX))
    }
    values = _by_documented_name({key: given[key] for key in given if key not in secured}, others)
    topics = _topic_choice(values, topic)
    _check_source(values)
    is_committed_only = _is_committed_only(values)
    path = values.get("path")
    columns = values.get("columns")
    return Options(
        topics=topics,
        path=local_path(path).absolute() if path else None,
        bootstrap_servers=values.get("kafka.bootstrap.servers"),
        starting_offsets=_bounds("startingOffsets", values.get("startingOffsets", "earliest"), topics),
        ending_offsets=_bounds("endingOffsets", values.get("endingOffsets", "latest"), topics),
        columns=None if columns is None else tuple(name.strip() for name in columns.split(",")),
        include_headers=truth("includeHeaders", values.get("includeHeaders", "true")),
        is_committed_only=is_committed_only,
        min_partitions=whole_number("minPartitions", values.get("minPartitions", str(cores()))),
        max_bytes_per_task=_size("maxBytesPerTask", values.get("maxBytesPerTask", "256m")),
        timeout_s=_seconds("timeout", values.get("timeout", "60s")),
        fail_on_corrupt=truth("failOnCorrupt", values.get("failOnCorrupt", "true")),
        fail_on_data_loss=truth("failOnDataLoss", values.get("failOnDataLoss", "true")),
        security=_security(secured),
    )


def _security(given: Mapping[str, str]) -> Security:
    """Return the security of properties with their prefix, as Spark's Kafka source takes them."""
    try:
        return Security.of({key.lower().removeprefix(_PREFIX): value for key, value in given.items()})
    except SecurityProblem as problem:
        raise OptionError(f"option {_PREFIX}{problem}") from problem


def source_option(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the option for a source: HOST:PORT[,...] is a cluster, anything else a data directory."""
    if isinstance(source, str) and _ADDRESSES.fullmatch(source):
        return "kafka.bootstrap.servers", source
    return "path", os.fspath(source)


def local_path(text: str) -> Path:
    """Return the path of a path or a `file:` URI. Raises OptionError for URIs of other file systems."""
    if not _URI.match(text):
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise OptionError(f"option path: a data directory is read from this machine's disks, not {text!r}")
    return Path(url2pathname(parts.path))


def choose_columns(names: tuple[str, ...] | None, available: list[str]) -> list[str]:
    """Return the columns to decode, in order; all columns if none are named."""
    if names is None:
        return available
    for name in names:
        if name not in available:
            raise OptionError(f"option columns: there is no column {name!r}{_nearest(name, available)}")
    if len(set(names)) != len(names):
        raise OptionError("option columns: a column is named twice")
    return list(names)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _by_documented_name(given: Mapping[str, str], others: Iterable[str]) -> dict[str, str]:
    by_name = {name.lower(): name for name in NAMES} | ALIASES
    values: dict[str, str] = {}
    for key, value in given.items():
        name = by_name.get(key.lower())
        if name is None:
            raise OptionError(f"headgate has no option {key!r}{_nearest(key, [*NAMES, *ALIASES, *others])}")
        if values.setdefault(name, value) != value:
            raise OptionError(f"option {name} is given twice: {values[name]!r} and {value!r}")
    return values


def _topic_choice(values: dict[str, str], topic: str | None) -> TopicChoice:
    if topic is not None and values.setdefault("subscribe", topic) != topic:
        raise OptionError(f"this reader reads {topic} only, not topic {values['subscribe']!r}")
    given = [name for name in _TOPIC_OPTIONS if values.get(name)]
    if not given:
        raise OptionError(
            "option subscribe (or subscribePattern, or assign) is missing: the topic is missing"
        )
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)} exclude each other")
    text = values[given[0]]
    if given[0] == "subscribe":
        names = dict.fromkeys(TopicName(name.strip()) for name in text.split(",") if name.strip())
        return TopicChoice(names=tuple(names))
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as problem:
            raise OptionError(
                f"option subscribePattern: {text!r} is no regular expression: {problem}"
            ) from problem
        return TopicChoice(pattern=text)
    try:
        partitions = {
            TopicName(name): tuple(int(index) for index in indexes)
            for name, indexes in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError) as problem:
        raise OptionError(f'option assign: {text!r} is not like {{"topic": [0, 1]}}') from problem
    return TopicChoice(partitions=partitions)


def _check_source(values: Mapping[str, str]) -> None:
    path, servers = values.get("path"), values.get("kafka.bootstrap.servers")
    if not path and not servers:
        raise OptionError("option path (a data directory) or kafka.bootstrap.servers (HOST:PORT) is missing")
    if path and servers:
        raise OptionError("options path and kafka.bootstrap.servers exclude each other")
    if servers is not None and not _ADDRESSES.fullmatch(servers):
        raise OptionError(f"option kafka.bootstrap.servers: {servers!r} is not HOST:PORT[,HOST:PORT...]")
    if servers and "maxBytesPerTask" in values:
        raise OptionError(
            "option maxBytesPerTask goes with path only: a cluster does not tell sizes; use minPartitions"
        )


def _is_committed_only(values: Mapping[str, str]) -> bool:
    level = values.get("isolationLevel", _LEVELS[0]).strip().lower()
    if level not in _LEVELS:
        raise OptionError(f"option isolationLevel: {level!r} is neither {' nor '.join(_LEVELS)}")
    return level == _LEVELS[1]


def _nearest(name: str, known: Mapping[str, str] | list[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {by_lower[near[0]]!r}?"
    return f"; there are {', '.join(known)}"


def _bounds(name: str, text: str, topics: TopicChoice) -> Offsets:
    everything, word = (EARLIEST, "earliest") if name == "startingOffsets" else (LATEST, "latest")
    if text.strip().lower() == word:
        return {}
    return offsets_in(name, text, topics, {everything: word})


def offsets_in(name: str, text: str, topics: TopicChoice, words: Mapping[int, str]) -> Offsets:
    """Return the offsets in the JSON of an option; `words` has the negative ones that are allowed."""
    if not text.lstrip().startswith("{"):
        either = " nor ".join([*words.values(), f"JSON like {_EXAMPLE}"])
        raise OptionError(f"option {name}: {text!r} is neither {either}")
    try:
        by_topic = json.loads(text)
        offsets = {
            TopicPartition(TopicName(topic), int(partition)): int(offset)
            for topic, partitions in by_topic.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, TypeError, AttributeError) as problem:
        raise OptionError(f"option {name}: {text!r} is not like {_EXAMPLE}") from problem
    if strangers := set(by_topic) - set(topics.among(by_topic)):
        raise OptionError(f"option {name} names topics that are not read: {', '.join(sorted(strangers))}")
    allowed = " and ".join(f"{number} ({word})" for number, word in words.items())
    for where, offset in offsets.items():
        if offset < 0 and offset not in words:
            raise OptionError(
                f"option {name}: {offset} for partition {where.partition}, but only {allowed} may be negative"
            )
    return offsets


_LEVELS = ("read_uncommitted", "read_committed")
_EXAMPLE = '{"topic": {"0": 23}}'


def whole_number(name: str, text: str) -> int:
    """Return the number in an option, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"option {name}: {text!r} is not a whole number of 1 or more")
    return int(text)


def _size(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    if not match or int(match[1]) < 1:
        raise OptionError(f"option {name}: {text!r} is not a size such as 67108864 or 64m")
    return int(match[1]) * _SIZES[match[2]]


def _seconds(name: str, text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|)", text.strip().lower())
    if not match or float(match[1]) <= 0:
        raise OptionError(f"option {name}: {text!r} is not a time such as 60s or 2m")
    return float(match[1]) * {"ms": 0.001, "m": 60.0}.get(match[2], 1.0)


def truth(name: str, text: str) -> bool:
    """Return the truth value of an option."""
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"option {name}: {text!r} is neither true nor false")
    return text.strip().lower() == "true"

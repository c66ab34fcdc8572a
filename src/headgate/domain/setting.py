"""What a setting is: a name, a type, a default, what it may hold, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

SYNC = "sync"
PAGE_CACHE = "page-cache"


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class Kind(Enum):
    """The type of a setting's value; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class InvalidSetting(ValueError):
    """A setting that does not exist, or a value it cannot take; the message says which and what would do."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, what it may hold, and what it means."""

    name: str
    kind: Kind
    default: Any
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    excluded: tuple[int, ...] = ()
    """Values between minimum and maximum that mean nothing."""
    is_dynamic: bool = False
    """For a broker's setting: whether it may be changed while the broker runs."""
    broker_name: str | None = None
    """For a topic's setting: the broker setting that holds its default."""

    def parse(self, text: str) -> Any:
        """The value that `text` spells; raises InvalidSetting."""
        value = self._read(text.strip())
        self._check_range(value, text)
        self._check_choices(value, text)
        return value

    def format(self, value: Any) -> str:
        """The text that `parse` reads back as `value`. (None, which only a default may be, has none.)"""
        if self.kind is Kind.BOOLEAN:
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            return ",".join(value)
        return str(value)

    def _read(self, text: str) -> Any:
        try:
            match self.kind:
                case Kind.BOOLEAN:
                    return {"true": True, "false": False}[text.lower()]
                case Kind.INT | Kind.LONG:
                    if _WHOLE_NUMBER.fullmatch(text):
                        return int(text)
                    raise ValueError(text)
                case Kind.DOUBLE:
                    return float(text)
                case Kind.LIST:
                    return tuple(part.strip() for part in text.split(",") if part.strip())
                case Kind.STRING:
                    return text
        except (ValueError, KeyError):
            wanted = {Kind.BOOLEAN: "true or false", Kind.DOUBLE: "a number"}.get(self.kind, "a whole number")
            raise InvalidSetting(f"{self.name}={text}: {wanted} is expected") from None

    def _check_range(self, value: Any, text: str) -> None:
        if self.kind in (Kind.INT, Kind.LONG, Kind.DOUBLE):
            low = self.minimum if self.minimum is not None else -LONG_MAX - 1
            widest = INT_MAX if self.kind is Kind.INT else LONG_MAX
            high = self.maximum if self.maximum is not None else widest
            if not low <= value <= high or value in self.excluded:
                but = f" but not {self.excluded[0]}" if self.excluded else ""
                raise InvalidSetting(f"{self.name}={text}: a value from {low} to {high}{but} is expected")

    def _check_choices(self, value: Any, text: str) -> None:
        given = value if self.kind is Kind.LIST else (value,)
        if self.choices and not (given and all(one in self.choices for one in given)):
            raise InvalidSetting(f"{self.name}={text}: one of {', '.join(self.choices)} is expected")


def table(*settings: Setting) -> dict[str, Setting]:
    """Settings by name."""
    return {setting.name: setting for setting in settings}


# What settings of the broker and of its topics have in common.
DURABILITY = (
    "When a write with acks=all, or to an internal topic, is answered: 'sync' after the disk has it, "
    "'page-cache' when the operating system has it, as Kafka does."
)

CLEANUP_POLICY = (
    "What becomes of old records: 'delete' removes them by age or size; 'compact' wants a key in every "
    "record and keeps the last one of each."
)
DIRTY_RATIO = "How much of a log's closed segments must be new for it to be compacted."
LEAST_LAG = "How long a record is safe from compaction."
MOST_LAG = "When a log is compacted, and its segment closed, though little of it is new."
COMPRESSION = (
    "How batches are kept: 'producer' as they were sent; otherwise by this codec, and those of another are "
    "compressed anew ('uncompressed', 'gzip', 'snappy', 'lz4', 'zstd')."
)
COMPRESSIONS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")


def compression_levels(*, is_of_topic: bool) -> tuple[Setting, ...]:
    """The levels of the codecs that have one, for a broker or for a topic."""
    return tuple(
        Setting(
            name,
            Kind.INT,
            default,
            f"Level of {name.split('.')[1]}, for batches that are compressed anew.",
            minimum=lowest,
            maximum=highest,
            excluded=excluded,
            broker_name=name if is_of_topic else None,
        )
        for name, default, lowest, highest, excluded in (
            ("compression.gzip.level", -1, -1, 9, (0,)),
            ("compression.lz4.level", 9, 1, 17, ()),
            ("compression.zstd.level", 3, -131_072, 22, ()),
        )
    )

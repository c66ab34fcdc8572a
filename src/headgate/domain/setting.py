"""A setting: its name, type, default, valid values and description."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    """The type of a setting's value, with its number in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class InvalidSetting(ValueError):
    """An unknown setting or an invalid value. The message names it and says what is valid."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a broker, topic or group."""

    name: str
    kind: Kind
    default: Any
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    may_be_empty: bool = False
    """Whether a list of choices may have none."""
    excluded: tuple[int, ...] = ()
    """Invalid values between minimum and maximum."""
    why_invalid: Callable[[str], str | None] | None = None
    """Returns what is expected instead of an invalid text, and None for a valid one."""
    is_dynamic: bool = False
    """Whether a broker's setting can be changed while the broker runs."""
    broker_name: str | None = None
    """The broker setting that is the default of a topic's or a group's setting."""
    broker_unit: int = 1
    """The unit of that broker setting, in units of this one."""

    def parse(self, text: str) -> Any:
        """Return the value of `text`. Raises InvalidSetting."""
        value = self._read(text.strip())
        self._check_range(value, text)
        self._check_choices(value, text)
        if self.why_invalid is not None and (expected := self.why_invalid(value)) is not None:
            raise InvalidSetting(f"{self.name}={text}: {expected} is expected")
        return value

    def format(self, value: Any) -> str:
        """Return the text that `parse` reads as `value`. `value` must not be None (only a default can be)."""
        if self.kind is Kind.BOOLEAN:
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            return ",".join(value)
        return str(value)

    @property
    def range_text(self) -> str | None:
        """The valid numbers in words; None: any of the type, or no number."""
        if self.kind not in (Kind.INT, Kind.LONG, Kind.DOUBLE):
            return None
        if self.minimum is None and self.maximum is None:
            return None
        low = "" if self.minimum is None else f"from {self.minimum}"
        high = "" if self.maximum is None else f"to {self.maximum}"
        but = "".join(f" but not {one}" for one in self.excluded)
        return f"{low} {high}".strip() + but

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
        if not given and self.may_be_empty:
            return
        if self.choices and not (given and all(one in self.choices for one in given)):
            raise InvalidSetting(f"{self.name}={text}: one of {', '.join(self.choices)} is expected")


def table(*settings: Setting) -> dict[str, Setting]:
    """Return settings by name."""
    return {setting.name: setting for setting in settings}


# Descriptions that a broker's and a topic's settings share.
DURABILITY = (
    "When a write with acks=all, or to an internal topic, is answered: 'sync' after it was synced to disk, "
    "'page-cache' after it was written to the page cache, as in Kafka."
)

CLEANUP_POLICY = (
    "What happens to old records: 'delete' removes them by age or size; 'compact' requires keys and keeps "
    "the last record of each key; with neither all are kept."
)
DIRTY_RATIO = "Share of new bytes in the closed segments of a log from which it is compacted."
LEAST_LAG = "Age below which a record is not compacted."
MOST_LAG = "Age of a record from which its segment is closed and its log is compacted in any case."
COMPRESSION = (
    "Compression of stored batches: 'producer' keeps that of the producer; with any other value, batches of "
    "another codec are recompressed ('uncompressed', 'gzip', 'snappy', 'lz4', 'zstd')."
)
COMPRESSIONS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")


def compression_levels(*, is_of_topic: bool) -> tuple[Setting, ...]:
    """Return the settings for the levels of codecs, for a topic or for a broker."""
    return tuple(
        Setting(
            name,
            Kind.INT,
            default,
            f"Compression level of {name.split('.')[1]}, for batches that are recompressed.",
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

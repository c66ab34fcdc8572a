"""All settings. Kafka's settings keep their names and defaults; the names of others begin with `headgate.`.

`BROKER_SETTINGS` are given at start-up (`--set`, `--config`); some can be changed later. `TOPIC_SETTINGS`
belong to a topic and `GROUP_SETTINGS` to a consumer group. The value of these two is their own, else that of
a broker setting, else their default. An unknown name is refused with the most similar known name. The
description of a setting that has no effect on a single node says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from fnmatch import fnmatchcase
from typing import Any

from headgate.domain.broker_settings import (
    ALWAYS,
    BROKER_SETTINGS,
    IN_OTHER_UNITS,
    LEFT_OUT,
    SAID_ELSEWHERE,
)
from headgate.domain.group_settings import GROUP_SETTINGS
from headgate.domain.setting import LONG_MAX, PAGE_CACHE, SYNC, InvalidSetting, Kind, Setting
from headgate.domain.topic_settings import TOPIC_SETTINGS
from headgate.domain.unknown_settings import unknown_setting

__all__ = [
    "BROKER_SETTINGS",
    "GROUP_SETTINGS",
    "LONG_MAX",
    "PAGE_CACHE",
    "SYNC",
    "TOPIC_SETTINGS",
    "InvalidSetting",
    "Kind",
    "Layer",
    "Setting",
    "Settings",
    "contradictions",
    "find",
]


def find(table: Mapping[str, Setting], name: str) -> Setting:
    """Return the setting called `name`. Raises InvalidSetting, which suggests the most similar name."""
    if name in table:
        return table[name]
    if name in SAID_ELSEWHERE:
        raise InvalidSetting(f"{name} is not a setting of Headgate; use {SAID_ELSEWHERE[name]}")
    if name in ALWAYS:
        raise InvalidSetting(f"{name} is not a setting of Headgate; it is always {ALWAYS[name]}")
    if table is BROKER_SETTINGS and (of_group := _only_of_groups(name)) is not None:
        raise InvalidSetting(
            f"{name} is not a setting of the broker; each group has its own {of_group}: "
            "see `headgate configs --alter --group`, or alter_configs of the Admin API"
        )
    if table is BROKER_SETTINGS and any(fnmatchcase(name, pattern) for pattern in LEFT_OUT):
        raise InvalidSetting(f"{name} is not a setting of Headgate; leave it out")
    raise InvalidSetting(unknown_setting(name, table))


def _only_of_groups(name: str) -> str | None:
    """Return the setting of groups that is meant, also with `group.` before it, if no broker setting is."""
    of_group = name.removeprefix("group.")
    found = GROUP_SETTINGS.get(of_group)
    return of_group if found is not None and found.broker_name is None else None


class Layer(Enum):
    """Where a broker setting has a value from. The first layer with a value counts."""

    THIS_BROKER = auto()
    """Changed at run time, for this broker."""
    ALL_BROKERS = auto()
    """Changed at run time, for all brokers of the cluster."""
    START = auto()
    """Given at start-up."""
    DEFAULT = auto()


class Settings(Mapping[str, Any]):
    """The current values of the broker's settings.

    A value is the one changed at run time, else the one given at start-up, else the default.
    """

    __slots__ = ("_in_force", "_layers")

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Parse `given`, name to text. Raises InvalidSetting for the first unknown name or invalid value."""
        defaults = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        self._layers: dict[Layer, Mapping[str, Any]] = {
            Layer.THIS_BROKER: {},
            Layer.ALL_BROKERS: {},
            Layer.START: _parsed(given or {}),
            Layer.DEFAULT: defaults,
        }
        self._resolve()

    def change(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> None:
        """Replace all values changed at run time. Raises InvalidSetting and then changes nothing."""
        of_all, of_this = _parsed(of_all_brokers), _parsed(of_this_broker)
        self._layers[Layer.ALL_BROKERS], self._layers[Layer.THIS_BROKER] = of_all, of_this
        self._resolve()

    def _resolve(self) -> None:
        values: dict[str, Any] = {}
        for layer in reversed(Layer):
            values.update(self._layers[layer])
        for name, others in IN_OTHER_UNITS.items():
            if values[name] is None:
                other, unit = next(one for one in others if values[one[0]] is not None)
                values[name] = values[other] * unit if values[other] >= 0 else -1
        self._in_force = values

    def __getitem__(self, name: str) -> Any:
        return self._in_force[name]

    def __iter__(self) -> Any:
        return iter(self._in_force)

    def __len__(self) -> int:
        return len(self._in_force)

    def values_of(self, name: str) -> Iterator[tuple[Layer, Any]]:
        """Yield the values of a setting by layer: the current one first, the default last if there is one."""
        for layer in Layer:
            value = self._layers[layer].get(name)
            if value is not None:
                yield layer, value

    def of_topic(self, overrides: Mapping[str, str], name: str) -> Any:
        """Return the value of a topic's setting: its own, else the broker's, else the default."""
        setting = TOPIC_SETTINGS[name]
        if name in overrides:
            return setting.parse(overrides[name])
        return self._in_force[setting.broker_name] if setting.broker_name else setting.default


_IN_BOUNDS = {
    name: (lowest, lowest.replace(".min.", ".max.", 1))
    for lowest in BROKER_SETTINGS
    if (name := lowest.replace(".min.", ".", 1)) != lowest and name in BROKER_SETTINGS
}
"""Settings whose value lies between those of two others: the names of these."""


def contradictions(settings: Settings) -> list[str]:
    """Return what does not fit together, one text each. Kafka does not start with it, either."""
    found = []
    for name, (lowest, highest) in _IN_BOUNDS.items():
        value, low, high = settings[name], settings[lowest], settings[highest]
        if low > high:
            found.append(f"{lowest}={low} is more than {highest}={high}")
        elif value < low:
            found.append(f"{name}={value} is less than {lowest}={low}: set that, too")
        elif value > high:
            found.append(f"{name}={value} is more than {highest}={high}: set that, too")
    for kind in ("consumer", "share"):
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if settings[session] <= settings[heartbeat]:
            found.append(
                f"{session}={settings[session]} is not more than {heartbeat}={settings[heartbeat]}: members "
                "would be removed between two heartbeats"
            )
    return found


def _parsed(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: find(BROKER_SETTINGS, name).parse(text) for name, text in texts.items()}

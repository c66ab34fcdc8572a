"""Every setting there is: Kafka's names and defaults where Kafka has it, `headgate.` names where not.

`BROKER_SETTINGS` are given at start (`--set`, `--config`), some may be changed later; `TOPIC_SETTINGS` belong
to a topic and `GROUP_SETTINGS` to a group of the new protocol: they fall back to a broker setting, then to
their default.
What is not in a table is refused by name, with the nearest name that exists; what is in a table and means
nothing on a single node says so in its text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any

from headgate.domain.broker_settings import BROKER_SETTINGS, IN_OTHER_UNITS, SAID_ELSEWHERE
from headgate.domain.group_settings import GROUP_SETTINGS
from headgate.domain.setting import LONG_MAX, PAGE_CACHE, SYNC, InvalidSetting, Kind, Setting
from headgate.domain.topic_settings import TOPIC_SETTINGS

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
    "find",
]


def find(table: Mapping[str, Setting], name: str) -> Setting:
    """The setting called `name`; raises InvalidSetting with the nearest name there is."""
    if name in table:
        return table[name]
    if name in SAID_ELSEWHERE:
        raise InvalidSetting(f"{name} is no setting here: {SAID_ELSEWHERE[name]} says it")
    near = difflib.get_close_matches(name, table, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidSetting(f"there is no setting called {name}{hint}")


class Layer(Enum):
    """Who gave a setting of the broker its value: the first of these that did counts."""

    THIS_BROKER = auto()
    """An administrator, for this broker, while it ran."""
    ALL_BROKERS = auto()
    """An administrator, for the whole cluster."""
    START = auto()
    """Whoever started the broker."""
    DEFAULT = auto()


class Settings(Mapping[str, Any]):
    """The broker's settings in force: what was changed while it runs, over what was given at start, over the
    defaults.
    """

    __slots__ = ("_in_force", "_layers")

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """`given` maps names to texts; raises InvalidSetting for the first that is unknown or unfit."""
        defaults = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        self._layers: dict[Layer, Mapping[str, Any]] = {
            Layer.THIS_BROKER: {},
            Layer.ALL_BROKERS: {},
            Layer.START: _parsed(given or {}),
            Layer.DEFAULT: defaults,
        }
        self._work_out()

    def change(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> None:
        """Take over all that is set while the broker runs; raises InvalidSetting and changes nothing."""
        of_all, of_this = _parsed(of_all_brokers), _parsed(of_this_broker)
        self._layers[Layer.ALL_BROKERS], self._layers[Layer.THIS_BROKER] = of_all, of_this
        self._work_out()

    def _work_out(self) -> None:
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
        """The values that a setting was given, the one that counts first, the default last if it has one."""
        for layer in Layer:
            value = self._layers[layer].get(name)
            if value is not None:
                yield layer, value

    def of_topic(self, overrides: Mapping[str, str], name: str) -> Any:
        """The value of a topic's setting: its own, else the broker's, else the default."""
        setting = TOPIC_SETTINGS[name]
        if name in overrides:
            return setting.parse(overrides[name])
        return self._in_force[setting.broker_name] if setting.broker_name else setting.default


def _parsed(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: find(BROKER_SETTINGS, name).parse(text) for name, text in texts.items()}

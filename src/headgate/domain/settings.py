"""Every setting there is: Kafka's names and defaults where Kafka has it, `headgate.` names where not.

`BROKER_SETTINGS` are given at start (`--set`, `--config`); `TOPIC_SETTINGS` belong to a topic and
`GROUP_SETTINGS` to a group of the new protocol: they fall back to a broker setting, then to their default.
What is not in a table is refused by name, with the nearest name that exists; what is in a table and means
nothing on a single node says so in its text.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from headgate.domain.broker_settings import BROKER_SETTINGS
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
    "Setting",
    "Settings",
    "find",
]


def find(table: Mapping[str, Setting], name: str) -> Setting:
    """The setting called `name`; raises InvalidSetting with the nearest name there is."""
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidSetting(f"there is no setting called {name}{hint}")


class Settings(Mapping[str, Any]):
    """The broker's settings in force: what was given at start over the defaults."""

    __slots__ = ("_given", "_values")

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """`given` maps names to texts; raises InvalidSetting for the first that is unknown or unfit."""
        self._given = {name: find(BROKER_SETTINGS, name).parse(text) for name, text in (given or {}).items()}
        self._values = {name: setting.default for name, setting in BROKER_SETTINGS.items()} | self._given

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def is_given(self, name: str) -> bool:
        """Whether the value was set at start, not defaulted."""
        return name in self._given

    def of_topic(self, overrides: Mapping[str, str], name: str) -> Any:
        """The value of a topic's setting: its own, else the broker's, else the default."""
        setting = TOPIC_SETTINGS[name]
        if name in overrides:
            return setting.parse(overrides[name])
        return self._values[setting.broker_name] if setting.broker_name else setting.default

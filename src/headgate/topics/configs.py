"""Configurations as clients see and change them: sources, synonyms, and the rules of an alteration.

Three kinds of resource have settings: a topic (`TOPIC_SETTINGS`, each falling back to a broker setting), a
group (`GROUP_SETTINGS`), and the broker itself (`BROKER_SETTINGS`, given at start and read-only while it
runs). A resource keeps only what was set on it, as text; the value in force is worked out from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from headgate.domain.errors import ErrorCode
from headgate.domain.settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    InvalidSetting,
    Kind,
    Setting,
    Settings,
    find,
)
from headgate.topics.refusal import Refusal


class ResourceType(IntEnum):
    """What a configuration belongs to, by the numbers of the protocol."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value in force comes from, by the numbers of the protocol."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the places a value could come from, and what stands there."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting in force: the first of its synonyms wins."""

    setting: Setting
    synonyms: tuple[Synonym, ...]
    is_read_only: bool

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.setting.name

    @property
    def value(self) -> str:
        """The value in force, as text."""
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        """Where the value in force comes from."""
        return self.synonyms[0].source


@dataclass(frozen=True, slots=True)
class Change:
    """One line of an alteration."""

    name: str
    operation: int
    value: str | None


def describe_broker(settings: Settings) -> list[ConfigValue]:
    """Every setting of the broker."""
    return [
        ConfigValue(setting, tuple(_broker_synonyms(settings, setting)), is_read_only=True)
        for setting in BROKER_SETTINGS.values()
    ]


def describe_topic(settings: Settings, overrides: Mapping[str, str]) -> list[ConfigValue]:
    """Every setting of a topic with these values of its own."""
    return [
        _describe(settings, setting, overrides, ConfigSource.TOPIC) for setting in TOPIC_SETTINGS.values()
    ]


def describe_group(settings: Settings, overrides: Mapping[str, str]) -> list[ConfigValue]:
    """Every setting of a group with these values of its own, which need not exist."""
    return [
        _describe(settings, setting, overrides, ConfigSource.GROUP) for setting in GROUP_SETTINGS.values()
    ]


def check(table: Mapping[str, Setting], overrides: Mapping[str, str | None]) -> Refusal | None:
    """What is wrong with these values, the first of them; None when every one is fit."""
    for name, text in overrides.items():
        if text is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for configs: {name}")
        try:
            find(table, name).parse(text)
        except InvalidSetting as problem:
            return Refusal(ErrorCode.INVALID_CONFIG, str(problem))
    return None


def check_group(settings: Settings, overrides: Mapping[str, str]) -> Refusal | None:
    """What is wrong with a group's values: the broker's settings say how small and how large they may be."""
    values: dict[str, int] = {}
    for name, setting in GROUP_SETTINGS.items():
        in_force = settings[setting.broker_name or ""]
        values[name] = value = setting.parse(overrides[name]) if name in overrides else in_force
        scope, _, what = name.partition(".")
        lowest, highest = settings[f"group.{scope}.min.{what}"], settings[f"group.{scope}.max.{what}"]
        if name in overrides and not lowest <= value <= highest:
            return Refusal(
                ErrorCode.INVALID_CONFIG, f"{name}={value}: a value from {lowest} to {highest} is expected"
            )
    if overrides and values["consumer.session.timeout.ms"] <= values["consumer.heartbeat.interval.ms"]:
        message = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
        return Refusal(ErrorCode.INVALID_CONFIG, message)
    return None


def altered(
    described: Sequence[ConfigValue], overrides: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str] | Refusal:
    """A resource's own values after `changes`, or why they cannot be made; all of them or none."""
    in_force = {config.name: config for config in described}
    result = dict(overrides)
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {change.name}")
        seen.add(change.name)
        refusal = _alter_one(in_force, result, change)
        if refusal is not None:
            return refusal
    return result


def _alter_one(in_force: Mapping[str, ConfigValue], result: dict[str, str], change: Change) -> Refusal | None:
    """Make one change to `result`, the values being collected."""
    try:
        setting = find({name: config.setting for name, config in in_force.items()}, change.name)
        if change.operation == Operation.DELETE:
            result.pop(change.name, None)
            return None
        if change.value is None:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for configs: {change.name}")
        if change.operation == Operation.SET:
            setting.parse(change.value)
            result[change.name] = change.value
            return None
        if change.operation not in (Operation.APPEND, Operation.SUBTRACT):
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown config operation {change.operation}")
        if setting.kind is not Kind.LIST:
            verb = Operation(change.operation).name
            return Refusal(
                ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {change.name} because its type is not LIST."
            )
        given: tuple[str, ...] = setting.parse(change.value)
        present: tuple[str, ...] = setting.parse(in_force[change.name].value)
        if change.operation == Operation.APPEND:
            text = setting.format((*present, *(part for part in given if part not in present)))
        else:
            text = setting.format(tuple(part for part in present if part not in given))
        setting.parse(text)
        result[change.name] = text
    except InvalidSetting as problem:
        return Refusal(ErrorCode.INVALID_CONFIG, str(problem))
    return None


def _describe(
    settings: Settings, setting: Setting, overrides: Mapping[str, str], source: ConfigSource
) -> ConfigValue:
    synonyms: list[Synonym] = []
    if setting.name in overrides:
        synonyms.append(Synonym(setting.name, overrides[setting.name], source))
    if setting.broker_name:
        synonyms.extend(_broker_synonyms(settings, BROKER_SETTINGS[setting.broker_name]))
    else:
        synonyms.append(_default(setting))
    return ConfigValue(setting, tuple(synonyms), is_read_only=False)


def _broker_synonyms(settings: Settings, setting: Setting) -> Iterator[Synonym]:
    if settings.is_given(setting.name):
        value: Any = settings[setting.name]
        yield Synonym(setting.name, setting.format(value), ConfigSource.STATIC_BROKER)
    yield _default(setting)


def _default(setting: Setting) -> Synonym:
    return Synonym(setting.name, setting.format(setting.default), ConfigSource.DEFAULT)

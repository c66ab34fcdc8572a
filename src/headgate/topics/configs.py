"""Configurations as clients see and change them: sources, synonyms, and the rules of an alteration.

Three types of resource have settings: a topic (`TOPIC_SETTINGS`, each with a broker setting as its default),
a group (`GROUP_SETTINGS`), and the broker (`BROKER_SETTINGS`, given at start; dynamic ones can be changed at
run time, for one broker or for all). A resource keeps only its overrides, as texts; the value in force is
derived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from headgate.domain.broker_settings import ALWAYS, IN_OTHER_UNITS, SAID_ELSEWHERE
from headgate.domain.errors import ErrorCode
from headgate.domain.settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    InvalidSetting,
    Kind,
    Layer,
    Setting,
    Settings,
    find,
)
from headgate.topics.refusal import Refusal


class ResourceType(IntEnum):
    """Type of a resource, with the numbers of the protocol."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Source of a value in force, with the numbers of the protocol."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Operation(IntEnum):
    """Operation of IncrementalAlterConfigs on one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Synonym:
    """One source that has a value for a setting, and that value."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting, its value in force as text, the source of the value, and all synonyms by precedence."""

    setting: Setting
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    is_read_only: bool

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.setting.name


@dataclass(frozen=True, slots=True)
class Change:
    """One line of an alteration."""

    name: str
    operation: int
    value: str | None


def describe_broker(settings: Settings, facts: Mapping[str, str]) -> list[ConfigValue]:
    """Return every setting of the broker, and `facts`: Kafka's settings that are given in other ways here."""
    described = [_of_broker(settings, setting) for setting in BROKER_SETTINGS.values()]
    return described + [_fact(name, value) for name, value in facts.items()]


def describe_all_brokers(settings: Settings) -> list[ConfigValue]:
    """Return the settings that were changed at run time for all brokers."""
    found = []
    for setting in BROKER_SETTINGS.values():
        for layer, value in settings.values_of(setting.name):
            if layer is Layer.ALL_BROKERS:
                synonym = Synonym(setting.name, setting.format(value), ConfigSource.DYNAMIC_DEFAULT_BROKER)
                found.append(
                    ConfigValue(setting, synonym.value, synonym.source, (synonym,), is_read_only=False)
                )
    return found


def describe_topic(settings: Settings, overrides: Mapping[str, str]) -> list[ConfigValue]:
    """Return every setting of a topic with these overrides."""
    return [
        _describe(settings, setting, overrides, ConfigSource.TOPIC) for setting in TOPIC_SETTINGS.values()
    ]


def describe_group(settings: Settings, overrides: Mapping[str, str]) -> list[ConfigValue]:
    """Return every setting of a group with these overrides. The group need not exist."""
    return [
        _describe(settings, setting, overrides, ConfigSource.GROUP) for setting in GROUP_SETTINGS.values()
    ]


def check(table: Mapping[str, Setting], overrides: Mapping[str, str | None]) -> Refusal | None:
    """Return the refusal of the first invalid value; None if all are valid."""
    for name, text in overrides.items():
        if text is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for configs: {name}")
        try:
            find(table, name).parse(text)
        except InvalidSetting as problem:
            return Refusal(ErrorCode.INVALID_CONFIG, str(problem))
    return None


def check_group(settings: Settings, overrides: Mapping[str, str]) -> Refusal | None:
    """Return the refusal of the first override outside the broker's bounds; None if all are valid."""
    for name in overrides:
        bounded = _within_bounds(settings, GROUP_SETTINGS[name])
        if bounded is GROUP_SETTINGS[name]:
            continue  # it has no bounds
        try:
            bounded.parse(overrides[name])
        except InvalidSetting as problem:
            return Refusal(ErrorCode.INVALID_CONFIG, str(problem))
    for scope in ("consumer", "share") if overrides else ():
        timeout, interval = f"{scope}.session.timeout.ms", f"{scope}.heartbeat.interval.ms"
        if _of_group(settings, overrides, timeout) <= _of_group(settings, overrides, interval):
            return Refusal(ErrorCode.INVALID_CONFIG, f"{timeout} must be greater than {interval}")
    return None


def _within_bounds(settings: Settings, setting: Setting) -> Setting:
    """Return a setting of a group with the broker's bounds, which are narrower than its own."""
    if setting.broker_name != f"group.{setting.name}":
        return setting
    scope, _, what = setting.name.partition(".")
    lowest, highest = settings[f"group.{scope}.min.{what}"], settings[f"group.{scope}.max.{what}"]
    return replace(setting, minimum=lowest, maximum=highest)


def _of_group(settings: Settings, overrides: Mapping[str, str], name: str) -> int:
    setting = GROUP_SETTINGS[name]
    value: int = setting.parse(overrides[name]) if name in overrides else settings[setting.broker_name or ""]
    return value


def altered_broker(
    settings: Settings, overrides: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str] | Refusal:
    """Return the overrides of a broker, or of all, after `changes`, or a refusal; only dynamic settings can
    change.
    """
    fixed = [
        change.name for change in changes if not _is_dynamic(change.name) and not _deletes_unknown(change)
    ]
    if unknown := [name for name in fixed if not _is_known(name)]:
        try:
            find(BROKER_SETTINGS, unknown[0])
        except InvalidSetting as problem:
            return Refusal(ErrorCode.INVALID_REQUEST, str(problem))
    if fixed:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        return Refusal(ErrorCode.INVALID_REQUEST, "; ".join([message, *filter(None, map(_instead, fixed))]))
    described = [_of_broker(settings, setting) for setting in BROKER_SETTINGS.values()]
    result = altered(described, overrides, changes)
    if isinstance(result, Refusal):
        return Refusal(ErrorCode.INVALID_REQUEST, result.message)
    return result


def _instead(name: str) -> str | None:
    """Return what can be altered in place of a setting of the broker that cannot; None: nothing."""
    for other, units in IN_OTHER_UNITS.items():
        if name in [one for one, _ in units]:
            return f"{other} can be updated, and is used instead of {name}"
    for kind, settings in (("group", GROUP_SETTINGS), ("topic", TOPIC_SETTINGS)):
        for own in settings.values():
            if own.broker_name == name:
                return f"a {kind} can have its own {own.name} (`headgate configs --alter --{kind}`)"
    return None


def _deletes_unknown(change: Change) -> bool:
    return change.operation == Operation.DELETE and not _is_known(change.name)


def _is_known(name: str) -> bool:
    return name in BROKER_SETTINGS or name in SAID_ELSEWHERE or name in ALWAYS


def _is_dynamic(name: str) -> bool:
    return name in BROKER_SETTINGS and BROKER_SETTINGS[name].is_dynamic


def altered_group(
    settings: Settings,
    described: Sequence[ConfigValue],
    overrides: Mapping[str, str],
    changes: Sequence[Change],
) -> dict[str, str] | Refusal:
    """Return a group's overrides after `changes`, or a refusal, which tells the broker's bounds at once."""
    named = {change.name for change in changes}
    bounded = [
        replace(one, setting=_within_bounds(settings, one.setting)) if one.name in named else one
        for one in described
    ]
    return altered(bounded, overrides, changes)


def altered(
    described: Sequence[ConfigValue], overrides: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str] | Refusal:
    """Return a resource's overrides after `changes`, or the refusal of all of them."""
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
    """Apply one change to `result`; return the refusal of an invalid one."""
    if change.operation == Operation.DELETE:
        # As in Kafka, of an unknown name, too: MirrorMaker 2 deletes all that are default at the source.
        result.pop(change.name, None)
        return None
    try:
        setting = find({name: config.setting for name, config in in_force.items()}, change.name)
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
        present: tuple[str, ...] = setting.parse(in_force[change.name].value or "")
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
    in_force = setting.default
    if setting.broker_name:
        synonyms.extend(_broker_synonyms(settings, BROKER_SETTINGS[setting.broker_name]))
        in_force = settings[setting.broker_name]
        if setting.broker_unit != 1:
            in_force *= setting.broker_unit
    else:
        synonyms.append(_default(setting))
    text = setting.format(in_force)
    if setting.name in overrides:
        text = overrides[setting.name]
        synonyms.insert(0, Synonym(setting.name, text, source))
    first = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigValue(setting, text, first, tuple(synonyms), is_read_only=False)


def _of_broker(settings: Settings, setting: Setting) -> ConfigValue:
    synonyms = tuple(_broker_synonyms(settings, setting))
    value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, ConfigSource.DEFAULT)
    return ConfigValue(setting, value, source, synonyms, is_read_only=not setting.is_dynamic)


_SOURCES: Mapping[Layer, ConfigSource] = {
    Layer.THIS_BROKER: ConfigSource.DYNAMIC_BROKER,
    Layer.ALL_BROKERS: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    Layer.START: ConfigSource.STATIC_BROKER,
    Layer.DEFAULT: ConfigSource.DEFAULT,
}


def _broker_synonyms(settings: Settings, setting: Setting) -> Iterator[Synonym]:
    """Yield the values of the setting and of the settings that replace it in other units, layer by layer.

    As in Kafka, values before the setting's own first value are left out.
    """
    names = (setting.name, *(name for name, _ in IN_OTHER_UNITS.get(setting.name, ())))
    given = {name: dict(settings.values_of(name)) for name in names}
    is_own_value_seen = False
    for layer, source in _SOURCES.items():
        for name in names:
            is_own_value_seen |= name == setting.name and layer in given[name]
            if layer in given[name] and is_own_value_seen:
                yield Synonym(name, BROKER_SETTINGS[name].format(given[name][layer]), source)


def _default(setting: Setting) -> Synonym:
    return Synonym(setting.name, setting.format(setting.default), ConfigSource.DEFAULT)


def _fact(name: str, value: str) -> ConfigValue:
    synonym = Synonym(name, value, ConfigSource.STATIC_BROKER)
    setting = Setting(name, Kind.LIST if "," in value or name.endswith("s") else Kind.STRING, None, _FACT_DOC)
    return ConfigValue(setting, value, synonym.source, (synonym,), is_read_only=True)


_FACT_DOC = "A property of this node: fixed, or set by an option at its start."

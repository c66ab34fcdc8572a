"""Run the requested action and return its exit code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from headgate.admin import (
    Admin,
    ClientError,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
    SecurityProblem,
)
from headgate.cli.configs.options import Options, entity_of
from headgate.cli.connecting import run_with_admin
from headgate.cli.printing import Row, print_json, print_rows, printable, say
from headgate.cli.usage_problem import UsageProblem
from headgate.client.resource_configs import is_secret
from headgate.client.security import read_properties
from headgate.domain import dead_letters
from headgate.domain.unknown_settings import unknown_setting
from headgate.domain.wording import did_you_mean

_TYPES = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "broker-loggers": ResourceType.BROKER_LOGGER,
}
_PLACE = ("entity_type", "entity_name", "name", "value")
_COLUMNS = (*_PLACE, "source", "is_sensitive", "is_read_only", "synonyms")
_ADDED = re.compile(r"\s*(?P<name>[^=,\[\]\s]+)\s*=\s*(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,]*?))\s*(?:,|$)")


def run(options: Options) -> int:
    """Run the requested action, print its result and return the exit code."""

    def act(admin: Admin) -> int:
        kind, name = entity_of(options)
        if options.alter:
            return _alter(admin, options, kind, str(name))
        return _describe(admin, options, kind, name)

    return run_with_admin(options, act)


def _alter(admin: Admin, options: Options, kind: str, name: str) -> int:
    changes = _changes(options)
    _check_deleted(
        admin, kind, name, [one.name for one in changes if one.operation is ConfigOperation.DELETE]
    )
    admin.alter_configs(ConfigResource(_TYPES[kind], name), changes)
    what = f"{kind.removesuffix('s')} {printable(name)}" if name else "the default of brokers"
    if options.output == "table":
        default = f"Completed updating default config for {kind} in the cluster."
        print(f"Completed updating config for {what}." if name else default)
    else:
        shown = [(one.name, None if is_secret(one.name) else one.value) for one in changes]
        rows = [dict(zip(_PLACE, (kind, name, *one), strict=True)) for one in shown]
        print_rows(rows, _PLACE, "changes", options.output)
    if kind == "groups":
        if any(one.operation is not ConfigOperation.DELETE for one in changes):
            _look_for_group(admin, name)
        _look_at_dead_letters(admin, {one.name: one.value for one in changes})
    return 0


def _look_for_group(admin: Admin, group_id: str) -> None:
    """Say if there is no such group: settings are accepted before it exists, also for a mistyped name."""
    try:
        known = {one.group_id for one in admin.list_groups()}
    except ClientError:  # the change is made; who may change settings may not list groups
        return
    if group_id not in known:
        hint = did_you_mean(group_id, known)
        name = f"{group_id} ({hint})" if hint else group_id
        say(f"there is no group called {name}: the settings hold for one that is created later")


def _look_at_dead_letters(admin: Admin, changes: Mapping[str, str | None]) -> None:
    """Say if the new dead-letter topic of a share group takes none: the brokers accept any name."""
    topic = changes.get(dead_letters.TOPIC)
    if not topic:
        return
    of_brokers = _settings_of_a_broker(admin)
    prefix = of_brokers.get(dead_letters.PREFIX) or ""
    if not topic.startswith(prefix):
        say(
            f"rejected records wait: the name {topic} does not begin with {prefix}, the brokers' "
            f"{dead_letters.PREFIX}; set {dead_letters.TOPIC} to another topic, or change the prefix"
        )
    elif topic not in admin.topics():
        if of_brokers.get(dead_letters.AUTO_CREATE) != "true":
            say(
                f"topic {topic} does not exist: rejected records wait until it does (`headgate topics "
                f"--create --topic {topic} --config {dead_letters.ENABLE}=true`)"
            )
    elif _settings_of(admin, ResourceType.TOPIC, topic).get(dead_letters.ENABLE, "true") != "true":
        say(
            f"topic {topic} takes no dead letters: rejected records wait until it does (`headgate configs "
            f"--alter --topic {topic} --add-config {dead_letters.ENABLE}=true`)"
        )


def _settings_of_a_broker(admin: Admin) -> Mapping[str, str | None]:
    """Return what one of the brokers tells; nothing, if this client may not ask."""
    try:
        return _settings_of(admin, ResourceType.BROKER, str(next(iter(admin.broker_ids()))))
    except ClientError:  # the change is made
        return {}


def _settings_of(admin: Admin, kind: ResourceType, name: str) -> Mapping[str, str | None]:
    (entries,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {one.name: one.value for one in entries}


def _changes(options: Options) -> list[ConfigChange]:
    """Return the requested changes. Raises `UsageProblem`."""
    changes = [ConfigChange(name, value) for name, value in _added(options).items()]
    deleted = [name.strip() for name in (options.delete_config or "").split(",")]
    changes += [ConfigChange(name, None, ConfigOperation.DELETE) for name in deleted if name]
    twice = {one.name for one in changes if [each.name for each in changes].count(one.name) > 1}
    if twice:
        raise UsageProblem(f"{min(twice)}: --add-config and --delete-config have it both")
    return changes


def _check_deleted(admin: Admin, kind: str, name: str, deleted: Sequence[str]) -> None:
    """Raise `UsageProblem` for a setting that does not exist: brokers accept that it is deleted."""
    if not deleted or kind not in ("topics", "brokers", "groups"):
        return
    described = name or next(iter(_names(admin, kind, None)))  # of all brokers only what is set is described
    (entries,) = admin.describe_configs([ConfigResource(_TYPES[kind], described)]).values()
    known = {one.name for one in entries}
    for one in deleted:
        if one not in known:
            raise UsageProblem(f"--delete-config: {unknown_setting(one, known)}")


def _added(options: Options) -> dict[str, str]:
    if options.add_config_file is not None:
        try:
            return read_properties(options.add_config_file)
        except SecurityProblem as problem:
            raise UsageProblem(f"--add-config-file {problem}") from problem
    text, at, found = options.add_config or "", 0, {}
    while at < len(text):
        part = _ADDED.match(text, at)
        if part is None:
            # The text is not repeated: it can have a password.
            raise UsageProblem(
                f"--add-config: NAME=VALUE,NAME=[VALUE,VALUE] is expected, at character {at + 1}"
            )
        found[part["name"]] = part["list"] if part["list"] is not None else part["value"]
        at = part.end()
    return found


def _describe(admin: Admin, options: Options, kind: str, name: str | None) -> int:
    resources = [ConfigResource(_TYPES[kind], one) for one in _names(admin, kind, name)]
    found = admin.describe_configs(resources)
    shown = {
        resource: [one for one in entries if options.all or one.is_own] for resource, entries in found.items()
    }
    if options.output == "table":
        for resource, entries in shown.items():
            _print_as_kafka(resource, kind, entries, options)
    elif options.output == "json":
        print_json({"configs": [_row(kind, each, one) for each, some in shown.items() for one in some]})
    else:
        rows = [_row(kind, each, one) for each, some in shown.items() for one in some]
        flat = [{**row, "synonyms": _synonyms_text(row)} for row in rows]
        print_rows(flat, _COLUMNS, "configs", options.output)
    return 0


def _names(admin: Admin, kind: str, name: str | None) -> Iterable[str]:
    if name is not None:
        return [name]
    if kind == "topics":
        return admin.topics()
    if kind == "brokers":
        return [*map(str, admin.broker_ids()), ""]
    if kind == "broker-loggers":
        return map(str, admin.broker_ids())
    return admin.list_config_resources(_TYPES[kind])


def _print_as_kafka(
    resource: ConfigResource, kind: str, entries: Iterable[ConfigEntry], options: Options
) -> None:
    """Print the lines of Kafka's tool, which scripts read."""
    which = "All" if options.all else "Dynamic"
    if resource.name:
        print(f"{which} configs for {kind.removesuffix('s')} {printable(resource.name)} are:")
    else:
        print("Default configs for brokers in the cluster are:")
    for one in entries:
        synonyms = ", ".join(f"{each.source}:{each.name}={_text(each.value)}" for each in one.synonyms)
        sensitive = str(one.is_sensitive).lower()
        print(f"  {one.name}={_text(one.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _text(value: str | None) -> str:
    return "null" if value is None else printable(value)


def _row(kind: str, resource: ConfigResource, one: ConfigEntry) -> Row:
    return {
        "entity_type": kind,
        "entity_name": resource.name,
        "name": one.name,
        "value": one.value,
        "source": one.source,
        "is_sensitive": one.is_sensitive,
        "is_read_only": one.is_read_only,
        "synonyms": [each._asdict() for each in one.synonyms],
    }


def _synonyms_text(row: Row) -> str:
    return " ".join(f"{each['source']}:{each['name']}={_text(each['value'])}" for each in row["synonyms"])

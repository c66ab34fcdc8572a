"""All options with their help, in the panels of `--help`, and the chosen resources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from headgate.cli.connecting import ConnectingAndPrinting, check_output
from headgate.cli.usage_problem import UsageProblem

_action = partial(Option, rich_help_panel="Actions: one of these")
_entity = partial(Option, rich_help_panel="Whose settings: one of these")
_change = partial(Option, rich_help_panel="Changes, with --alter")

TYPES = ("topics", "brokers", "groups", "client-metrics", "broker-loggers")
_UNSUPPORTED = ("users", "clients", "ips")
_SHORT = {
    "topic": "topics",
    "broker": "brokers",
    "group": "groups",
    "client_metrics": "client-metrics",
    "broker_logger": "broker-loggers",
}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All options except those of the connection."""

    describe: Annotated[bool, _action("--describe", help="Show settings.")] = False
    alter: Annotated[bool, _action("--alter", help="Change settings.")] = False
    all: Annotated[
        bool, Option("--all", help="With --describe: all settings, not only those of the resource itself.")
    ] = False
    entity_type: Annotated[
        str | None, _entity("--entity-type", metavar="TYPE", help=f"{', '.join(TYPES)}.")
    ] = None
    entity_name: Annotated[
        str | None,
        _entity("--entity-name", metavar="NAME", help="Its name; without one, all that have settings."),
    ] = None
    entity_default: Annotated[
        bool, _entity("--entity-default", help="The default of all brokers, with --entity-type brokers.")
    ] = False
    topic: Annotated[str | None, _entity("--topic", metavar="TOPIC", help="This topic.")] = None
    broker: Annotated[str | None, _entity("--broker", metavar="ID", help="This broker.")] = None
    group: Annotated[str | None, _entity("--group", metavar="ID", help="This group.")] = None
    client_metrics: Annotated[
        str | None, _entity("--client-metrics", metavar="NAME", help="These metrics of clients.")
    ] = None
    broker_logger: Annotated[
        str | None, _entity("--broker-logger", metavar="ID", help="The loggers of this broker.")
    ] = None
    broker_defaults: Annotated[bool, _entity("--broker-defaults", help="The default of all brokers.")] = False
    add_config: Annotated[
        str | None,
        _change("--add-config", metavar="A=1,B=[2,3]", help="Set these; a value with commas is in brackets."),
    ] = None
    add_config_file: Annotated[
        Path | None, _change("--add-config-file", metavar="FILE", help="Set those of a file of properties.")
    ] = None
    delete_config: Annotated[
        str | None,
        _change("--delete-config", metavar="A,B", help="Take these back: the broker's value applies again."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Options(ConnectingAndPrinting, Parameters):
    """The options of `headgate configs`."""


def entity_of(options: Options) -> tuple[str, str | None]:
    """Return the type and the name of the resource; None: all of the type. Raises `UsageProblem`."""
    check_output(options.output)
    if options.describe == options.alter:
        raise UsageProblem("--describe or --alter is expected; see `headgate configs --help`")
    short = [(kind, getattr(options, name)) for name, kind in _SHORT.items() if getattr(options, name)]
    short += [("brokers", "")] if options.broker_defaults else []
    if options.entity_type is None and (options.entity_name or options.entity_default):
        raise UsageProblem("--entity-type is missing: it goes with --entity-name and --entity-default")
    if len(short) + (options.entity_type is not None) != 1:
        raise UsageProblem(
            "one resource is expected: --topic, --broker, --group, --broker-defaults, --client-metrics, "
            "--broker-logger, or --entity-type with --entity-name"
        )
    kind, name = short[0] if short else _long(options)
    _check_changes(options, name)
    return kind, name


def _long(options: Options) -> tuple[str, str | None]:
    kind = str(options.entity_type)
    if kind in _UNSUPPORTED:
        raise UsageProblem(
            f"--entity-type {kind}: quotas and passwords are not supported; kafka-configs.sh changes them"
        )
    if kind not in TYPES:
        raise UsageProblem(f"--entity-type {kind}: one of {', '.join(TYPES)} is expected")
    if options.entity_default and (kind != "brokers" or options.entity_name):
        raise UsageProblem("--entity-default goes with --entity-type brokers only, and without a name")
    return kind, "" if options.entity_default else options.entity_name


def _check_changes(options: Options, name: str | None) -> None:
    changes = [options.add_config, options.add_config_file, options.delete_config]
    if options.describe and any(each is not None for each in changes):
        raise UsageProblem("--add-config, --add-config-file and --delete-config go with --alter")
    if options.alter and all(each is None for each in changes):
        raise UsageProblem("--add-config, --add-config-file or --delete-config is expected with --alter")
    if options.alter and name is None:
        raise UsageProblem("--entity-name is missing: it is expected with --alter")
    if options.add_config is not None and options.add_config_file is not None:
        raise UsageProblem("--add-config and --add-config-file: one of them is expected")

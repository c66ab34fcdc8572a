"""All options with their help, in the panels of `--help`, and the valid combinations."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated

from typer import Option

from headgate.cli.connecting import ConnectingAndPrinting, check_output
from headgate.cli.usage_problem import UsageProblem, option

_action = partial(Option, rich_help_panel="Actions: one of these")
_topic = partial(Option, rich_help_panel="The topics")
_new = partial(Option, rich_help_panel="Options of --create and --alter")
_shown = partial(Option, rich_help_panel="Output of --list and --describe")

ACTIONS = ("list", "describe", "create", "alter", "delete")
_STATES = (
    "unavailable_partitions",
    "under_replicated_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
    "topics_with_overrides",
)
_MAY_HAVE = {
    "list": ("topic", "exclude_internal"),
    "describe": ("topic", "topic_id", "exclude_internal", "if_exists", *_STATES),
    "create": ("topic", "partitions", "replication_factor", "replica_assignment", "config", "if_not_exists"),
    "alter": ("topic", "partitions", "replica_assignment", "if_exists"),
    "delete": ("topic", "if_exists"),
}
_NEEDS = {
    "list": (),
    "describe": (),
    "create": ("topic",),
    "alter": ("topic", "partitions"),
    "delete": ("topic",),
}


@dataclass(frozen=True, kw_only=True)
class Actions:
    """The actions, exactly one of which is needed."""

    list: Annotated[bool, _action("--list", help="List the topics.")] = False
    describe: Annotated[bool, _action("--describe", help="Describe topics and their partitions.")] = False
    create: Annotated[bool, _action("--create", help="Create a topic.")] = False
    alter: Annotated[bool, _action("--alter", help="Increase the number of partitions.")] = False
    delete: Annotated[bool, _action("--delete", help="Delete topics with all their records.")] = False


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All other options."""

    topic: Annotated[
        str | None,
        _topic(
            "--topic",
            metavar="TOPIC",
            help="With --create a name; else a regular expression of whole names, or names with commas.",
        ),
    ] = None
    topic_id: Annotated[str | None, _topic("--topic-id", metavar="ID", help="With --describe: this id.")] = (
        None
    )
    exclude_internal: Annotated[
        bool, _topic("--exclude-internal", help="Leave out topics of the broker, such as __consumer_offsets.")
    ] = False
    if_exists: Annotated[bool, _topic("--if-exists", help="No error if there is no such topic.")] = False
    if_not_exists: Annotated[
        bool, _topic("--if-not-exists", help="With --create: no error if the topic exists.")
    ] = False
    partitions: Annotated[
        int | None, _new("--partitions", metavar="N", help="Number of partitions; by default the broker's.")
    ] = None
    replication_factor: Annotated[
        int | None, _new("--replication-factor", metavar="N", help="Number of replicas of each partition.")
    ] = None
    replica_assignment: Annotated[
        str | None,
        _new(
            "--replica-assignment",
            metavar="1:2,2:3",
            help="Nodes of partition 0, 1, ...; the leader first.",
        ),
    ] = None
    config: Annotated[
        list[str], _new("--config", metavar="NAME=VALUE", help="A setting of the topic. Can be repeated.")
    ] = field(default_factory=list)
    topics_with_overrides: Annotated[
        bool, _shown("--topics-with-overrides", help="Only topics with settings other than the defaults.")
    ] = False
    unavailable_partitions: Annotated[
        bool, _shown("--unavailable-partitions", help="Only partitions without an available leader.")
    ] = False
    under_replicated_partitions: Annotated[
        bool, _shown("--under-replicated-partitions", help="Only partitions that lack replicas in sync.")
    ] = False
    under_min_isr_partitions: Annotated[
        bool, _shown("--under-min-isr-partitions", help="Only partitions below min.insync.replicas.")
    ] = False
    at_min_isr_partitions: Annotated[
        bool, _shown("--at-min-isr-partitions", help="Only partitions exactly at min.insync.replicas.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Options(ConnectingAndPrinting, Parameters, Actions):
    """The options of `headgate topics`."""

    @property
    def state(self) -> str | None:
        """The one of the options that choose partitions by their state."""
        return next((name for name in _STATES[:-1] if getattr(self, name)), None)


def action_of(options: Options) -> str:
    """Return the requested action, after checking its options. Raises `UsageProblem`."""
    check_output(options.output)
    given = [name for name in ACTIONS if getattr(options, name)]
    if len(given) != 1:
        raise UsageProblem(
            f"one of {', '.join(map(option, ACTIONS))} is expected; see `headgate topics --help`"
        )
    (action,) = given
    values = {each.name: getattr(options, each.name) for each in fields(Parameters)}
    named = [name for name, value in values.items() if value is not False and value not in (None, [])]
    for name in named:
        if name not in _MAY_HAVE[action]:
            if (name, action) == ("config", "alter"):
                raise UsageProblem("--config is for --create: `headgate configs --alter` changes settings")
            raise UsageProblem(f"{option(name)} cannot be combined with {option(action)}")
    for name in _NEEDS.get(action, ()):
        if name not in named:
            raise UsageProblem(f"{option(name)} is missing: it is expected with {option(action)}")
    if len(states := [name for name in _STATES if name in named]) > 1:
        raise UsageProblem(f"{' and '.join(map(option, states))}: one of them is expected")
    if (
        options.replica_assignment
        and action == "create"
        and (options.partitions or options.replication_factor)
    ):
        raise UsageProblem("--replica-assignment replaces --partitions and --replication-factor")
    return action

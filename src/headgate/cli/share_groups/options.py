"""All options with their help, in the panels of `--help`, and their values."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated

from typer import Option

OUTPUTS = ("table", "json")

_action = partial(Option, rich_help_panel="Actions: one of these")
_group = partial(Option, rich_help_panel="Groups and topics")
_shown = partial(Option, rich_help_panel="Output of --list and --describe")
_target = partial(Option, rich_help_panel="Target of --reset-offsets: one of these")
_other = partial(Option, rich_help_panel="Connection and output")

ACTIONS = ("list", "describe", "reset_offsets", "delete", "delete_offsets")
TARGETS = ("to_earliest", "to_latest", "to_datetime")
SHOWN = ("offsets", "members", "state")


@dataclass(frozen=True, kw_only=True)
class Actions:
    """The actions, exactly one of which is needed."""

    list: Annotated[bool, _action("--list", help="List the share groups.")] = False
    describe: Annotated[bool, _action("--describe", help="Describe groups: start offsets and lag.")] = False
    reset_offsets: Annotated[
        bool,
        _action(
            "--reset-offsets",
            help="Change the start offsets of a group without members. Without --execute it only shows the "
            "plan.",
        ),
    ] = False
    delete: Annotated[bool, _action("--delete", help="Delete groups without members.")] = False
    delete_offsets: Annotated[
        bool, _action("--delete-offsets", help="Forget topics in a group without members.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All other options."""

    group: Annotated[list[str], _group("--group", metavar="ID", help="This group. Can be repeated.")] = field(
        default_factory=list
    )
    all_groups: Annotated[bool, _group("--all-groups", help="All share groups.")] = False
    topic: Annotated[
        list[str],
        _group("--topic", metavar="TOPIC[:0,1]", help="This topic, or these partitions. Can be repeated."),
    ] = field(default_factory=list)
    all_topics: Annotated[bool, _group("--all-topics", help="All topics of the group.")] = False
    offsets: Annotated[bool, _shown("--offsets", help="Start offsets and lag (the default).")] = False
    members: Annotated[bool, _shown("--members", help="The members.")] = False
    state: Annotated[
        str | None,
        _shown("--state", metavar="[STATES]", help="The state; with --list, groups in these states."),
    ] = None
    verbose: Annotated[bool, _shown("--verbose", help="More columns.")] = False
    to_earliest: Annotated[bool, _target("--to-earliest", help="The start of the log.")] = False
    to_latest: Annotated[bool, _target("--to-latest", help="The end of the log.")] = False
    to_datetime: Annotated[
        str | None,
        _target("--to-datetime", metavar="WHEN", help="The first record since 2026-11-21T08:30:00."),
    ] = None
    dry_run: Annotated[bool, _target("--dry-run", help="Show the plan only (the default).")] = False
    execute: Annotated[bool, _target("--execute", help="Make the changes.")] = False
    bootstrap_server: Annotated[
        str, _other("--bootstrap-server", metavar="HOST:PORT", help="Servers, separated by commas.")
    ] = "127.0.0.1:9092"
    output: Annotated[str, _other("--output", metavar="table|json", help="The format.")] = "table"
    timeout: Annotated[int, _other("--timeout", metavar="MS", help="Limit of each call.", min=1)] = 10_000


@dataclass(frozen=True, kw_only=True)
class Options(Parameters, Actions):
    """The options of `headgate share-groups`."""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options that have a value other than the default."""
        defaults = Options()
        return tuple(
            each.name for each in fields(self) if getattr(self, each.name) != getattr(defaults, each.name)
        )

"""All options with their help, in the panels of `--help`, and their values."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated

from typer import Option

from headgate.cli.connecting import ConnectingAndPrinting, connection_option

_action = partial(Option, rich_help_panel="Actions: one of these")
_group = partial(Option, rich_help_panel="Groups and topics")
_shown = partial(Option, rich_help_panel="Output of --list and --describe")
_target = partial(Option, rich_help_panel="Target of --reset-offsets and --rewind: one of these")
_pause = partial(Option, rich_help_panel="Pauses")
_records = partial(Option, rich_help_panel="Records")

ACTIONS = (
    "list",
    "describe",
    "records",
    "release",
    "archive",
    "redeliver_dead_letters",
    "pause",
    "resume",
    "paused_partitions",
    "rewind",
    "reset_offsets",
    "delete",
    "delete_offsets",
)
TARGETS = ("to_earliest", "to_latest", "to_datetime", "to_offset")
SHOWN = ("offsets", "members", "state")


@dataclass(frozen=True, kw_only=True)
class Actions:
    """The actions, exactly one of which is needed."""

    list: Annotated[bool, _action("--list", help="List the share groups.")] = False
    describe: Annotated[bool, _action("--describe", help="Describe groups: start offsets and lag.")] = False
    records: Annotated[
        bool,
        _action(
            "--records",
            help="Show single records: who has them since when, how often they were delivered, when their "
            "locks end, and why they are not delivered any more.",
        ),
    ] = False
    release: Annotated[
        bool,
        _action(
            "--release",
            help="Take records back from their members, to be delivered again. Without --execute: the plan.",
        ),
    ] = False
    archive: Annotated[
        bool,
        _action(
            "--archive",
            help="Deliver records no more; they get dead letters if the group has a topic for these. "
            "Without --execute: the plan.",
        ),
    ] = False
    redeliver_dead_letters: Annotated[
        bool,
        _action(
            "--redeliver-dead-letters",
            help="Deliver records again, to this group, that have dead letters. Without --execute: the plan.",
        ),
    ] = False
    pause: Annotated[
        bool,
        _action(
            "--pause",
            help="Deliver no more records of partitions, and wait until members have none left.",
        ),
    ] = False
    resume: Annotated[bool, _action("--resume", help="Deliver records of paused partitions again.")] = False
    paused_partitions: Annotated[
        bool,
        _action("--paused-partitions", help="List paused partitions, and who has records of them."),
    ] = False
    rewind: Annotated[
        bool,
        _action(
            "--rewind",
            help="Change the start offsets of a running group: pause, wait, set, resume. Without --execute: "
            "the plan.",
        ),
    ] = False
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
    offset: Annotated[
        list[str],
        _records(
            "--offset",
            metavar="FROM[-TO]",
            help="This offset, or these: 5, 5-9, or 5- for all from 5 on. Can be repeated.",
        ),
    ] = field(default_factory=list)
    limit: Annotated[
        int, _records("--limit", metavar="N", help="Most ranges of records that --records shows.", min=1)
    ] = 1_000
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
    to_offset: Annotated[int | None, _target("--to-offset", metavar="OFFSET", help="This offset.", min=0)] = (
        None
    )
    reason: Annotated[
        str | None, _pause("--reason", metavar="TEXT", help="The reason that --paused-partitions shows.")
    ] = None
    no_wait: Annotated[bool, _pause("--no-wait", help="With --pause: do not wait.")] = False
    release_timeout: Annotated[
        int | None,
        _pause("--release-timeout", metavar="SECONDS", help="Limit of the wait (300 s).", min=1),
    ] = None
    dry_run: Annotated[bool, connection_option("--dry-run", help="Show the plan only (the default).")] = False
    execute: Annotated[bool, connection_option("--execute", help="Make the changes.")] = False
    create: Annotated[
        bool, _group("--create", help="With --reset-offsets: create the group if it does not exist.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Options(ConnectingAndPrinting, Parameters, Actions):
    """The options of `headgate share-groups`."""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options that have a value other than the default."""
        defaults = Options()
        return tuple(
            each.name for each in fields(self) if getattr(self, each.name) != getattr(defaults, each.name)
        )

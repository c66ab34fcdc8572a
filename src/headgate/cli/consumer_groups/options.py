"""All options with their help, in the panels of `--help`, and their values.

A panel is a dataclass: its fields are the options, with their names and defaults. `Options` combines all
panels, and the command takes its fields as parameters (`command.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from headgate.cli.connecting import ConnectingAndPrinting

_group = partial(Option, rich_help_panel="Groups")
_partitions = partial(Option, rich_help_panel="Partitions")
_action = partial(Option, rich_help_panel="Actions: one of these")
_shown = partial(Option, rich_help_panel="Output of --list and --describe")
_target = partial(Option, rich_help_panel="Target of --reset-offsets and --rewind: one of these")
_change = partial(Option, rich_help_panel="Output of --history")
_reset = partial(Option, rich_help_panel="Execution of --reset-offsets, --rewind and --undo")
_pause = partial(Option, rich_help_panel="Options of --pause and --rewind")


@dataclass(frozen=True, kw_only=True)
class Actions:
    """The actions, exactly one of which is needed."""

    list: Annotated[bool, _action("--list", help="List the consumer groups.")] = False
    describe: Annotated[bool, _action("--describe", help="Describe groups: offsets, lag and members.")] = (
        False
    )
    reset_offsets: Annotated[
        bool,
        _action(
            "--reset-offsets",
            help="Change the offsets of a group without members. Without --execute it only shows the plan.",
        ),
    ] = False
    delete_offsets: Annotated[
        bool,
        _action("--delete-offsets", help="Delete committed offsets of topics without subscribed members."),
    ] = False
    delete: Annotated[
        bool, _action("--delete", help="Delete groups without members, with all their offsets.")
    ] = False
    history: Annotated[bool, _action("--history", help="List the changes of a group's offsets.")] = False
    offsets_as_of: Annotated[
        str | None,
        _action(
            "--offsets-as-of",
            metavar="WHEN",
            help="Show a group's offsets as of a time: 2026-11-21T08:30:00.",
        ),
    ] = None
    expiring_within: Annotated[
        str | None,
        _action(
            "--expiring-within",
            metavar="24h",
            help="List groups without members whose offsets expire within this time: 24h, 7d, P1DT2H.",
        ),
    ] = None
    undo: Annotated[
        bool,
        _action(
            "--undo",
            help="Undo the last change of a group's offsets. Without --execute it only shows the plan.",
        ),
    ] = False
    pause: Annotated[
        bool,
        _action(
            "--pause",
            help="Exclude partitions from the assignment of a running group, which continues with the "
            "others, and wait until the members have revoked them.",
        ),
    ] = False
    resume: Annotated[bool, _action("--resume", help="Assign paused partitions again.")] = False
    paused_partitions: Annotated[
        bool,
        _action(
            "--paused-partitions",
            help="List paused partitions: time, user, reason, and the owner that has not released them.",
        ),
    ] = False
    rewind: Annotated[
        bool,
        _action(
            "--rewind",
            help="Set offsets of a running group: pause, wait for the release, set, resume. Without "
            "--execute it only shows the plan.",
        ),
    ] = False
    validate_regex: Annotated[
        str | None,
        _action(
            "--validate-regex",
            metavar="REGEX",
            help="Check a regular expression over topics, of members that subscribe by one: RE2's syntax.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The groups."""

    group: Annotated[list[str], _group("--group", metavar="ID", help="This group. Can be repeated.")] = field(
        default_factory=list
    )
    all_groups: Annotated[bool, _group("--all-groups", help="All consumer groups.")] = False


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """The partitions."""

    topic: Annotated[
        list[str],
        _partitions(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="This topic, or these partitions of it. Can be repeated.",
        ),
    ] = field(default_factory=list)
    all_topics: Annotated[
        bool, _partitions("--all-topics", help="All partitions with a committed offset.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The output of --list and --describe."""

    offsets: Annotated[
        bool, _shown("--offsets", help="Offset, end of the log and lag of each partition (default).")
    ] = False
    members: Annotated[bool, _shown("--members", help="The members of a group.")] = False
    state: Annotated[
        str | None,
        _shown(
            "--state",
            metavar="[STATES]",
            help="The state of groups. With --list and states (Stable,Empty): only these groups.",
        ),
    ] = None
    type: Annotated[
        str | None,
        _shown(
            "--type",
            metavar="[TYPES]",
            help="With --list: the type of groups. With types (Classic,Consumer): only these groups.",
        ),
    ] = None
    verbose: Annotated[
        bool,
        _shown("--verbose", help="More columns: leader epochs, assignments of members, group epochs."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The targets of --reset-offsets and --rewind, exactly one of which is needed."""

    to_earliest: Annotated[bool, _target("--to-earliest", help="The start of the log.")] = False
    to_latest: Annotated[bool, _target("--to-latest", help="The end of the log.")] = False
    to_current: Annotated[
        bool,
        _target("--to-current", help="The committed offset, or the end of the log if there is none."),
    ] = False
    to_offset: Annotated[int | None, _target("--to-offset", metavar="N", help="This offset.", min=0)] = None
    shift_by: Annotated[
        int | None,
        _target(
            "--shift-by",
            metavar="N",
            help="N records after the committed offset, or before it if N is negative.",
        ),
    ] = None
    to_datetime: Annotated[
        str | None,
        _target(
            "--to-datetime",
            metavar="WHEN",
            help="The first record at or after a time: 2026-11-21T08:30:00, in UTC or with +01:00.",
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        _target("--by-duration", metavar="P1DT2H3M4S", help="The first record that is not older than this."),
    ] = None
    from_file: Annotated[
        Path | None,
        _target(
            "--from-file",
            metavar="FILE.csv",
            help="The offsets in a file of --export: lines of topic,partition,offset or "
            "group,topic,partition,offset.",
        ),
    ] = None
    to_offsets_as_of: Annotated[
        str | None,
        _target(
            "--to-offsets-as-of",
            metavar="WHEN",
            help="The offsets as of a time. The offset of a partition that had none is removed.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The output of --history."""

    since: Annotated[
        str | None, _change("--since", metavar="WHEN", help="Only changes at or after a time.")
    ] = None
    until: Annotated[
        str | None, _change("--until", metavar="WHEN", help="Only changes at or before a time.")
    ] = None
    limit: Annotated[
        int | None,
        _change(
            "--limit",
            metavar="N",
            min=1,
            help="At most the newest N changes of each partition (default 100).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Execution:
    """The execution of --reset-offsets, --rewind and --undo."""

    dry_run: Annotated[bool, _reset("--dry-run", help="Only show the plan (default).")] = False
    execute: Annotated[bool, _reset("--execute", help="Execute the plan.")] = False
    redo: Annotated[
        bool,
        _reset("--redo", help="With --undo: undo the last change also if it was itself an undo."),
    ] = False
    create: Annotated[
        bool, _reset("--create", help="With --reset-offsets: create the group if it does not exist.")
    ] = False
    export: Annotated[
        bool, _reset("--export", help="Only print the offsets, in the format of --from-file.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Pauses:
    """How --pause and --rewind work."""

    reason: Annotated[
        str | None,
        _pause("--reason", metavar="TEXT", help="Kept with the pause; --paused-partitions shows it."),
    ] = None
    release_timeout: Annotated[
        int | None,
        _pause(
            "--release-timeout",
            metavar="S",
            min=1,
            help="How many seconds to wait until the members have released the partitions; 300 unless given.",
        ),
    ] = None
    no_wait: Annotated[
        bool, _pause("--no-wait", help="With --pause: do not wait until the partitions are released.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Options(ConnectingAndPrinting, Pauses, Execution, Changes, Targets, Shown, Partitions, Groups, Actions):
    """All options. The fields of the last base come first, which is the order in `--help`."""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options on the command line, without those of the connection and the output."""
        always = names_of(ConnectingAndPrinting)
        return tuple(
            name for name in names_of(Options) if name not in always and _is_given(getattr(self, name))
        )


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != []  # 0 counts as given: it is an offset


def names_of(group: type[Actions | Groups | Partitions | Targets | ConnectingAndPrinting]) -> tuple[str, ...]:
    """Return the names of a panel's options, in the order of `--help`."""
    return tuple(each.name for each in fields(group))

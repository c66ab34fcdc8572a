"""Every option with its help, in the groups that `--help` shows them in, and what was asked for.

A group is a dataclass: its fields are options by their names; what was not given has the default. `Options`
is all of them together, and the command takes its fields as parameters (`command.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

OUTPUTS = ("table", "json", "csv")

_group = partial(Option, rich_help_panel="Which groups")
_partitions = partial(Option, rich_help_panel="Which partitions")
_action = partial(Option, rich_help_panel="What to do: one of these")
_shown = partial(Option, rich_help_panel="What --list and --describe show")
_target = partial(Option, rich_help_panel="Where --reset-offsets and --rewind lead: one of these")
_change = partial(Option, rich_help_panel="What --history lists")
_reset = partial(Option, rich_help_panel="How --reset-offsets, --rewind and --undo work")
_pause = partial(Option, rich_help_panel="How --pause and --rewind work")
_other = partial(Option, rich_help_panel="Connection and output")


@dataclass(frozen=True, kw_only=True)
class Actions:
    """What to do: one of these."""

    list: Annotated[bool, _action("--list", help="List the consumer groups.")] = False
    describe: Annotated[
        bool, _action("--describe", help="Describe groups: where they are, who is in them.")
    ] = False
    reset_offsets: Annotated[
        bool,
        _action(
            "--reset-offsets",
            help="Move the offsets of a group without members. Shows what it would do until --execute is "
            "given.",
        ),
    ] = False
    delete_offsets: Annotated[
        bool,
        _action(
            "--delete-offsets", help="Delete committed offsets of topics that the group does not read now."
        ),
    ] = False
    delete: Annotated[
        bool, _action("--delete", help="Delete groups without members, with all their offsets.")
    ] = False
    history: Annotated[bool, _action("--history", help="List every change of a group's offsets.")] = False
    offsets_as_of: Annotated[
        str | None,
        _action(
            "--offsets-as-of",
            metavar="WHEN",
            help="Show what a group's offsets were then: 2026-11-21T08:30:00.",
        ),
    ] = None
    undo: Annotated[
        bool,
        _action(
            "--undo",
            help="Take back the last change of a group's offsets. Shows what it would do until --execute is "
            "given.",
        ),
    ] = False
    pause: Annotated[
        bool,
        _action(
            "--pause",
            help="Take partitions from the members of a running group, which go on with the others; wait "
            "until they are released.",
        ),
    ] = False
    resume: Annotated[bool, _action("--resume", help="Give paused partitions back to the group.")] = False
    paused_partitions: Annotated[
        bool,
        _action(
            "--paused-partitions", help="List paused partitions: since when, by whom, why, who holds on."
        ),
    ] = False
    rewind: Annotated[
        bool,
        _action(
            "--rewind",
            help="Set offsets of a running group: pause, wait for the release, set, resume. Shows what it "
            "would do until --execute is given.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Which groups."""

    group: Annotated[list[str], _group("--group", metavar="ID", help="This group; may be repeated.")] = field(
        default_factory=list
    )
    all_groups: Annotated[bool, _group("--all-groups", help="All consumer groups.")] = False


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """Which partitions."""

    topic: Annotated[
        list[str],
        _partitions(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="This topic, or these of its partitions; may be repeated.",
        ),
    ] = field(default_factory=list)
    all_topics: Annotated[
        bool, _partitions("--all-topics", help="Every partition the group has an offset in.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What --list and --describe show."""

    offsets: Annotated[
        bool, _shown("--offsets", help="Offsets, ends and lag of each partition (default).")
    ] = False
    members: Annotated[bool, _shown("--members", help="The members of a group.")] = False
    state: Annotated[
        str | None,
        _shown(
            "--state",
            metavar="[STATES]",
            help="The state of groups; with --list and states (Stable,Empty), only those groups.",
        ),
    ] = None
    type: Annotated[
        str | None,
        _shown(
            "--type",
            metavar="[TYPES]",
            help="With --list: the type of groups; with types (Classic,Consumer), only those groups.",
        ),
    ] = None
    verbose: Annotated[
        bool,
        _shown("--verbose", help="More columns: leader epochs, each member's partitions, group epochs."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Where --reset-offsets and --rewind lead: one of these."""

    to_earliest: Annotated[bool, _target("--to-earliest", help="Where the log starts.")] = False
    to_latest: Annotated[bool, _target("--to-latest", help="Where the log ends.")] = False
    to_current: Annotated[
        bool,
        _target("--to-current", help="What is committed now; where the log ends for a partition without."),
    ] = False
    to_offset: Annotated[int | None, _target("--to-offset", metavar="N", help="This offset.")] = None
    shift_by: Annotated[
        int | None, _target("--shift-by", metavar="N", help="N records on; back if N is negative.")
    ] = None
    to_datetime: Annotated[
        str | None,
        _target(
            "--to-datetime",
            metavar="WHEN",
            help="The first record of then or later: 2026-11-21T08:30:00, of UTC unless it ends in +01:00.",
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        _target("--by-duration", metavar="P1DT2H3M4S", help="The first record that is no older than this."),
    ] = None
    from_file: Annotated[
        Path | None,
        _target(
            "--from-file",
            metavar="FILE.csv",
            help="Offsets as --export wrote them: lines of topic,partition,offset or "
            "group,topic,partition,offset.",
        ),
    ] = None
    to_offsets_as_of: Annotated[
        str | None,
        _target(
            "--to-offsets-as-of",
            metavar="WHEN",
            help="What the offsets were then; a partition that had none loses its offset.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What --history lists."""

    since: Annotated[str | None, _change("--since", metavar="WHEN", help="Changes of then or later.")] = None
    until: Annotated[str | None, _change("--until", metavar="WHEN", help="Changes of then or before.")] = None
    limit: Annotated[
        int | None,
        _change(
            "--limit",
            metavar="N",
            min=1,
            help="The newest N changes of each partition; 100 unless given.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How --reset-offsets, --rewind and --undo work."""

    dry_run: Annotated[bool, _reset("--dry-run", help="Show what would be done (default).")] = False
    execute: Annotated[bool, _reset("--execute", help="Do it.")] = False
    redo: Annotated[
        bool,
        _reset("--redo", help="With --undo: if the last change is itself an undo, take that one back."),
    ] = False
    create: Annotated[
        bool, _reset("--create", help="With --reset-offsets: make the group if there is none of that name.")
    ] = False
    export: Annotated[bool, _reset("--export", help="Print what --from-file reads, and no more.")] = False


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
class Everywhere:
    """Connection and output: these go with every action, and always have a value."""

    bootstrap_server: Annotated[
        str, _other("--bootstrap-server", metavar="HOST:PORT,...", help="Where the cluster is.")
    ] = "127.0.0.1:9092"
    timeout: Annotated[
        int, _other("--timeout", metavar="MS", min=1, help="How long each request may take.")
    ] = 5000
    output: Annotated[str, _other("--output", help="table, json or csv.")] = "table"


@dataclass(frozen=True, kw_only=True)
class Options(Everywhere, Pauses, Execution, Changes, Targets, Shown, Partitions, Groups, Actions):
    """All options. (The fields of the last base come first: that is the order of `--help`.)"""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options that were given, of those that have no value otherwise."""
        always = names_of(Everywhere)
        return tuple(
            name for name in names_of(Options) if name not in always and _is_given(getattr(self, name))
        )


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != []  # 0 is an offset, and no False


def names_of(group: type[Actions | Groups | Partitions | Targets | Everywhere]) -> tuple[str, ...]:
    """The names of a group's options, in the order `--help` has them in."""
    return tuple(each.name for each in fields(group))

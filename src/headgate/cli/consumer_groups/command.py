"""The command's signature: every option with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

WITHOUT_VALUE = ""
"""What --state and --type are when they stand alone."""

_ACTIONS = "What to do: one of these"
_GROUPS = "Which groups"
_PARTITIONS = "Which partitions"
_SHOWN = "What --list and --describe show"
_TARGETS = "Where --reset-offsets leads: one of these"
_HISTORY = "What --history lists"
_RESET = "How --reset-offsets and --undo work"
_OTHER = "Connection and output"


class OptionalValues(TyperCommand):
    """A command whose --state and --type may stand alone or have a value, as Kafka's tool has it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give them an empty value where they have none."""
        given: list[str] = []
        for arg, following in zip(args, [*args[1:], "-"], strict=True):
            given.append(arg)
            if arg in ("--state", "--type") and following.startswith("-"):
                given.append(WITHOUT_VALUE)
        return super().parse_args(ctx, given)


def consumer_groups(
    list_: Annotated[
        bool, typer.Option("--list", help="List the consumer groups.", rich_help_panel=_ACTIONS)
    ] = False,
    describe: Annotated[
        bool,
        typer.Option(
            "--describe", help="Describe groups: where they are, who is in them.", rich_help_panel=_ACTIONS
        ),
    ] = False,
    reset_offsets: Annotated[
        bool,
        typer.Option(
            "--reset-offsets",
            help="Move the offsets of a group without members. Shows what it would do until --execute is "
            "given.",
            rich_help_panel=_ACTIONS,
        ),
    ] = False,
    delete_offsets: Annotated[
        bool,
        typer.Option(
            "--delete-offsets",
            help="Delete committed offsets of topics that the group does not read now.",
            rich_help_panel=_ACTIONS,
        ),
    ] = False,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="Delete groups without members, with all their offsets.",
            rich_help_panel=_ACTIONS,
        ),
    ] = False,
    history: Annotated[
        bool,
        typer.Option("--history", help="List every change of a group's offsets.", rich_help_panel=_ACTIONS),
    ] = False,
    offsets_as_of: Annotated[
        str | None,
        typer.Option(
            "--offsets-as-of",
            metavar="WHEN",
            help="Show what a group's offsets were then: 2026-11-21T08:30:00.",
            rich_help_panel=_ACTIONS,
        ),
    ] = None,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo",
            help="Take back the last change of a group's offsets. Shows what it would do until --execute is "
            "given.",
            rich_help_panel=_ACTIONS,
        ),
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="ID", help="This group; may be repeated.", rich_help_panel=_GROUPS),
    ] = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="All consumer groups.", rich_help_panel=_GROUPS)
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="This topic, or these of its partitions; may be repeated.",
            rich_help_panel=_PARTITIONS,
        ),
    ] = None,
    all_topics: Annotated[
        bool,
        typer.Option(
            "--all-topics",
            help="Every partition the group has an offset in.",
            rich_help_panel=_PARTITIONS,
        ),
    ] = False,
    offsets: Annotated[
        bool,
        typer.Option(
            "--offsets", help="Offsets, ends and lag of each partition (default).", rich_help_panel=_SHOWN
        ),
    ] = False,
    members: Annotated[
        bool, typer.Option("--members", help="The members of a group.", rich_help_panel=_SHOWN)
    ] = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="[STATES]",
            help="The state of groups; with --list and states (Stable,Empty), only those groups.",
            rich_help_panel=_SHOWN,
        ),
    ] = None,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="[TYPES]",
            help="With --list: the type of groups; with types (Classic,Consumer), only those groups.",
            rich_help_panel=_SHOWN,
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="More columns: leader epochs, each member's partitions, group epochs.",
            rich_help_panel=_SHOWN,
        ),
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Where the log starts.", rich_help_panel=_TARGETS)
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Where the log ends.", rich_help_panel=_TARGETS)
    ] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current",
            help="What is committed now; where the log ends for a partition without.",
            rich_help_panel=_TARGETS,
        ),
    ] = False,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", metavar="N", help="This offset.", rich_help_panel=_TARGETS),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by", metavar="N", help="N records on; back if N is negative.", rich_help_panel=_TARGETS
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="WHEN",
            help="The first record of then or later: 2026-11-21T08:30:00, of UTC unless it ends in +01:00.",
            rich_help_panel=_TARGETS,
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="P1DT2H3M4S",
            help="The first record that is no older than this.",
            rich_help_panel=_TARGETS,
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="FILE.csv",
            help="Offsets as --export wrote them: lines of topic,partition,offset or "
            "group,topic,partition,offset.",
            rich_help_panel=_TARGETS,
        ),
    ] = None,
    to_offsets_as_of: Annotated[
        str | None,
        typer.Option(
            "--to-offsets-as-of",
            metavar="WHEN",
            help="What the offsets were then; a partition that had none loses its offset.",
            rich_help_panel=_TARGETS,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Changes of then or later.", rich_help_panel=_HISTORY),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="WHEN", help="Changes of then or before.", rich_help_panel=_HISTORY),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=1,
            help="The newest N changes of each partition; 100 unless given.",
            rich_help_panel=_HISTORY,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done (default).", rich_help_panel=_RESET)
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do it.", rich_help_panel=_RESET)] = False,
    export: Annotated[
        bool,
        typer.Option("--export", help="Print what --from-file reads, and no more.", rich_help_panel=_RESET),
    ] = False,
    bootstrap_server: Annotated[
        str,
        typer.Option(
            "--bootstrap-server",
            metavar="HOST:PORT,...",
            help="Where the cluster is.",
            rich_help_panel=_OTHER,
        ),
    ] = "127.0.0.1:9092",
    timeout: Annotated[
        int,
        typer.Option(
            "--timeout", metavar="MS", min=1, help="How long each request may take.", rich_help_panel=_OTHER
        ),
    ] = 5000,
    output: Annotated[
        str, typer.Option("--output", help="table, json or csv.", rich_help_panel=_OTHER)
    ] = "table",
) -> None:
    """Look after consumer groups: who reads what, how far, and moving it.

    The options are those of kafka-consumer-groups.sh; it works with Headgate as with a Kafka cluster.

    Where is everybody, and how far behind?

    headgate consumer-groups --describe --all-groups

    Read a topic again from this morning on: stop the consumers, look, then do it.

    headgate consumer-groups --reset-offsets --group billing --topic flights --to-datetime 2026-11-21T08:00:00

    headgate consumer-groups --reset-offsets ... --execute

    That was the wrong group: take it back.

    headgate consumer-groups --undo --group billing --all-topics --execute
    """
    from headgate.cli.consumer_groups.options import Options
    from headgate.cli.consumer_groups.run import run

    raise typer.Exit(
        run(
            Options(
                list=list_,
                describe=describe,
                reset_offsets=reset_offsets,
                delete_offsets=delete_offsets,
                delete=delete,
                history=history,
                offsets_as_of=offsets_as_of,
                undo=undo,
                group=tuple(group or ()),
                all_groups=all_groups,
                topic=tuple(topic or ()),
                all_topics=all_topics,
                offsets=offsets,
                members=members,
                state=state,
                type=type_,
                verbose=verbose,
                to_earliest=to_earliest,
                to_latest=to_latest,
                to_current=to_current,
                to_offset=to_offset,
                shift_by=shift_by,
                to_datetime=to_datetime,
                by_duration=by_duration,
                from_file=from_file,
                to_offsets_as_of=to_offsets_as_of,
                since=since,
                until=until,
                limit=limit,
                dry_run=dry_run,
                execute=execute,
                export=export,
                bootstrap_server=bootstrap_server,
                timeout=timeout,
                output=output,
            )
        )
    )

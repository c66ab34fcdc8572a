"""All options with their help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from headgate.cli.connecting import Connecting, output_option


@dataclass(frozen=True, kw_only=True)
class Options(Connecting):
    """The options of `headgate consume`."""

    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic to read.")] = None
    include: Annotated[
        str | None,
        typer.Option("--include", metavar="REGEX", help="Or all topics whose whole name matches."),
    ] = None
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Only this partition.")
    ] = None
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset", metavar="N", help="With --partition: from this offset, earliest or latest on."
        ),
    ] = None
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="From the first record on, not only records that come now."),
    ] = False
    to_end: Annotated[
        bool,
        typer.Option(
            "--to-end",
            help="Stop at the end that the log has when the command starts; with --group, when the group has "
            "read up to it.",
        ),
    ] = False
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", metavar="N", min=1, help="Stop after so many records.")
    ] = None
    timeout_ms: Annotated[
        int | None,
        typer.Option("--timeout-ms", metavar="MS", min=0, help="Stop when there is no record for so long."),
    ] = None
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="ID", help="Read as a member of this group, and commit offsets."),
    ] = None
    isolation_level: Annotated[
        str,
        typer.Option("--isolation-level", metavar="LEVEL", help="read_uncommitted or read_committed."),
    ] = "read_uncommitted"
    formatter_property: Annotated[
        list[str],
        typer.Option(
            "--formatter-property",
            "--property",
            metavar="NAME=VALUE",
            help="print.key=true, print.value=, print.timestamp=, print.offset=, print.epoch=, "
            "print.partition=, print.headers=, key.separator=, line.separator=, headers.separator=, "
            "null.literal=. Can be repeated.",
        ),
    ] = field(default_factory=list)
    output: Annotated[
        str,
        output_option("text", "json", "csv", help="text as Kafka's tool; json: a line each."),
    ] = "text"

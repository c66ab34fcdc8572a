"""The command. Its options are the fields of `Options`, which it creates from the command line."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from headgate.cli.consumer_groups.options import Options
from headgate.cli.option_classes import takes_options

WITHOUT_VALUE = ""
"""The value of --state and --type without a value."""


class OptionalValues(TyperCommand):
    """A command whose --state and --type have an optional value, as in Kafka's tool."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, after adding an empty value to these options where they have none."""
        given: list[str] = []
        for arg, following in zip(args, [*args, "-"][1:], strict=True):
            given.append(arg)
            if arg in ("--state", "--type") and following.startswith("-"):
                given.append(WITHOUT_VALUE)
        return super().parse_args(ctx, given)


@takes_options(Options)
def consumer_groups(options: Options) -> None:
    """Describe consumer groups, their members, offsets and lag, and change their offsets.

    The options are those of kafka-consumer-groups.sh and more. The command works with Headgate and Kafka.

    Show the offsets and lag of all groups:

    headgate consumer-groups --describe --all-groups

    Read a topic again from a time on: stop the consumers, show the plan, then execute it:

    headgate consumer-groups --reset-offsets --group billing --topic flights --to-datetime 2026-11-21T08:00:00

    headgate consumer-groups --reset-offsets ... --execute

    Read two partitions again while the group consumes the others: show the plan, then execute it:

    headgate consumer-groups --rewind --group billing --topic flights:0,1 --by-duration PT1H

    headgate consumer-groups --rewind ... --execute

    Undo the last change of a group's offsets:

    headgate consumer-groups --undo --group billing --all-topics --execute
    """
    from headgate.cli.consumer_groups.run import run

    raise typer.Exit(run(options))

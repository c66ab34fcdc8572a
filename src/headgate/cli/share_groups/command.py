"""The command. Its options are the fields of `Options`, which it creates from the command line."""

from __future__ import annotations

import typer

from headgate.cli.option_classes import takes_options
from headgate.cli.share_groups.options import Options


@takes_options(Options)
def share_groups(options: Options) -> None:
    """Describe share groups, their members, offsets and lag, and change their offsets.

    The options are those of kafka-share-groups.sh. The command works with Headgate and Kafka.

    Show start offsets and lag of all share groups:

    headgate share-groups --describe --all-groups

    Show who has which records of a partition, and why others are not delivered any more:

    headgate share-groups --records --group work --topic orders:3

    Set a record aside, and deliver it again when its consumer is mended:

    headgate share-groups --archive --group work --topic orders:3 --offset 17 --execute

    headgate share-groups --redeliver-dead-letters --group work --topic orders:3 --offset 17 --execute

    Deliver a topic again from its start: stop the consumers, show the plan, then execute it:

    headgate share-groups --reset-offsets --group work --topic orders --to-earliest

    headgate share-groups --reset-offsets ... --execute
    """
    from headgate.cli.share_groups.run import run

    raise typer.Exit(run(options))

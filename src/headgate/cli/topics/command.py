"""The command. Its options are the fields of `Options`, which it creates from the command line."""

from __future__ import annotations

import typer

from headgate.cli.option_classes import takes_options
from headgate.cli.topics.options import Options


@takes_options(Options)
def topics(options: Options) -> None:
    """List, describe, create, change and delete topics.

    The options are those of kafka-topics.sh. The command works with Headgate and Kafka.

    headgate topics --create --topic orders --partitions 6 --config retention.ms=86400000

    headgate topics --describe --topic orders

    Settings of existing topics are changed by `headgate configs`.
    """
    from headgate.cli.topics.run import run

    raise typer.Exit(run(options))

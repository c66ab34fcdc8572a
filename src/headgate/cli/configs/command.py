"""The command. Its options are the fields of `Options`, which it creates from the command line."""

from __future__ import annotations

import typer

from headgate.cli.configs.options import Options
from headgate.cli.option_classes import takes_options


@takes_options(Options)
def configs(options: Options) -> None:
    """Show and change settings of topics, brokers and groups.

    The options are those of kafka-configs.sh. The command works with Headgate and Kafka.

    headgate configs --describe --topic orders --all

    headgate configs --alter --topic orders --add-config retention.ms=86400000

    headgate configs --alter --group billing --add-config offsets.retention.ms=2592000000
    """
    from headgate.cli.configs.run import run

    raise typer.Exit(run(options))

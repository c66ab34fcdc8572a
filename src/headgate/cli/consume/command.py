"""The command. Its options are the fields of `Options`, which it creates from the command line."""

from __future__ import annotations

import typer

from headgate.cli.connecting import run_with_admin
from headgate.cli.consume.options import Options
from headgate.cli.option_classes import takes_options


@takes_options(Options)
def consume(options: Options) -> None:
    """Print records as they come.

    The options are those of kafka-console-consumer.sh, without properties of clients,
    with --to-end and --output. Without --group the command leaves no trace in the cluster: no group, no
    offsets.

    headgate consume --topic orders --from-beginning --to-end

    headgate consume --topic orders --property print.key=true --output json
    """
    from headgate.cli.consume.run import run

    raise typer.Exit(run_with_admin(options, lambda admin: run(admin, options)))

"""The command with its actions. Their options are the fields of `options`, created from the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from headgate.cli.option_classes import takes_context_and_options
from headgate.cli.transactions.options import (
    Abort,
    Connection,
    Describe,
    DescribeProducers,
    FindHanging,
    ForceTerminate,
    List,
)

OptionsT = TypeVar("OptionsT", bound=Connection)

transactions = typer.Typer(name="transactions", no_args_is_help=True)


@transactions.callback()
@takes_context_and_options(Connection)
def _transactions(context: typer.Context, options: Connection) -> None:
    """Look at transactions, and end those that hang.

    The actions and options are those of kafka-transactions.sh. The command works with Headgate and Kafka.

    Find what holds back committed readers, and end it:

    headgate transactions find-hanging

    headgate transactions abort --topic orders --partition 0 --start-offset 1200

    End the transaction of a producer that is still known:

    headgate transactions forceTerminateTransaction --transactional-id billing-1
    """
    context.obj = options


def _action(
    name: str, options_type: type[OptionsT]
) -> Callable[[Callable[[OptionsT], None]], Callable[..., None]]:
    """Make an action of a function that has only its help."""

    def decorated(described: Callable[[OptionsT], None]) -> Callable[..., None]:
        def acting(context: typer.Context, options: OptionsT) -> None:
            from headgate.cli.transactions.run import run

            raise typer.Exit(run(options, context.obj))

        acting.__name__, acting.__doc__ = described.__name__, described.__doc__
        return transactions.command(name)(takes_context_and_options(options_type)(acting))

    return decorated


@_action("list", List)
def _list(options: List) -> None:
    """List transactional ids, with the state of their last transactions."""


@_action("describe", Describe)
def _describe(options: Describe) -> None:
    """Describe a transactional id with its last transaction."""


@_action("describe-producers", DescribeProducers)
def _describe_producers(options: DescribeProducers) -> None:
    """Describe the producers that a partition knows, with their open transactions."""


@_action("find-hanging", FindHanging)
def _find_hanging(options: FindHanging) -> None:
    """Find open transactions that no coordinator will end."""


@_action("abort", Abort)
def _abort(options: Abort) -> None:
    """Abort a hanging transaction in its partition.

    Use it for what find-hanging shows. A transaction that its coordinator knows is refused, unless
    --force is given: it would be aborted in this partition only.
    """


@_action("forceTerminateTransaction", ForceTerminate)
def _force_terminate(options: ForceTerminate) -> None:
    """Abort the open transaction of a transactional id in all partitions, and fence its producer."""

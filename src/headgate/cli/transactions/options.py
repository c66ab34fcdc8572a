"""The options of each action, with their help, and their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from typer import Option

from headgate.cli.connecting import (
    DEFAULT_SERVER,
    DEFAULT_TIMEOUT_MS,
    OUTPUTS,
    CommandConfig,
    connection_option,
    output_option,
)

DEFAULT_MAX_TRANSACTION_TIMEOUT_MIN = 15

_INT32, _INT64 = 2**31 - 1, 2**63 - 1

_Topic = Annotated[str, Option("--topic", metavar="TOPIC", help="The topic.")]
_Partition = Annotated[int, Option("--partition", metavar="NUMBER", min=0, max=_INT32, help="The partition.")]
_BrokerId = Annotated[
    int | None,
    Option(
        "--broker-id", metavar="NUMBER", min=0, max=_INT32, help="Ask this broker instead of the leaders."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The options before and after the name of an action; those after it count first. None: not given."""

    bootstrap_server: Annotated[
        str | None,
        connection_option(
            "--bootstrap-server",
            metavar="HOST:PORT,...",
            help="Addresses of the cluster.",
            show_default=DEFAULT_SERVER,
        ),
    ] = None
    output: Annotated[
        str | None,
        output_option(*OUTPUTS, show_default="table"),
    ] = None
    command_config: CommandConfig = None
    timeout: Annotated[
        int | None,
        connection_option(
            "--timeout",
            metavar="MS",
            help="Limit of each call, in ms.",
            min=1,
            show_default=str(DEFAULT_TIMEOUT_MS),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class List(Connection):
    """The options of `list`."""

    state: Annotated[
        list[str], Option("--state", metavar="STATES", help="Only these states, separated by commas.")
    ] = field(default_factory=list)
    duration_filter: Annotated[
        int,
        Option(
            "--duration-filter",
            metavar="MS",
            min=-1,
            max=_INT64,
            help="Only those that began longer ago; -1: all.",
        ),
    ] = -1
    transactional_id_pattern: Annotated[
        str | None,
        Option(
            "--transactional-id-pattern",
            metavar="REGEX",
            help="Only ids that this regular expression matches as a whole.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Describe(Connection):
    """The options of `describe`."""

    transactional_id: Annotated[str, Option("--transactional-id", metavar="ID", help="The transactional id.")]


@dataclass(frozen=True, kw_only=True)
class DescribeProducers(Connection):
    """The options of `describe-producers`."""

    topic: _Topic
    partition: _Partition
    broker_id: _BrokerId = None


@dataclass(frozen=True, kw_only=True)
class FindHanging(Connection):
    """The options of `find-hanging`."""

    topic: Annotated[
        str | None, Option("--topic", metavar="TOPIC", help="Only this topic, instead of all.")
    ] = None
    partition: Annotated[
        int | None,
        Option("--partition", metavar="NUMBER", min=0, max=_INT32, help="Only this partition of the topic."),
    ] = None
    max_transaction_timeout: Annotated[
        int,
        Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            min=0,
            help="Only transactions whose last record is older: the greatest timeout of a producer.",
        ),
    ] = DEFAULT_MAX_TRANSACTION_TIMEOUT_MIN
    broker_id: _BrokerId = None


@dataclass(frozen=True, kw_only=True)
class Abort(Connection):
    """The options of `abort`."""

    topic: _Topic
    partition: _Partition
    start_offset: Annotated[
        int | None,
        Option(
            "--start-offset",
            metavar="OFFSET",
            min=0,
            max=_INT64,
            help="The first offset of the transaction.",
        ),
    ] = None
    producer_id: Annotated[
        int | None,
        Option(
            "--producer-id",
            metavar="ID",
            min=0,
            max=_INT64,
            help="The producer, if no offset is given.",
        ),
    ] = None
    producer_epoch: Annotated[
        int | None,
        Option("--producer-epoch", metavar="EPOCH", min=0, max=32_767, help="The epoch of this producer."),
    ] = None
    coordinator_epoch: Annotated[
        int | None,
        Option(
            "--coordinator-epoch",
            metavar="EPOCH",
            min=-1,
            max=_INT32,
            help="The coordinator's epoch that describe-producers shows for it.",
        ),
    ] = None
    force: Annotated[
        bool,
        Option("--force", help="Abort it in this partition also if its coordinator knows it."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ForceTerminate(Connection):
    """The options of `forceTerminateTransaction`."""

    transactional_id: Annotated[
        str, Option("--transactional-id", "--transactionalId", metavar="ID", help="The transactional id.")
    ]

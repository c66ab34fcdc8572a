"""Run the requested action and return its exit code."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from typing import Any

from headgate.admin import (
    Admin,
    ProducerState,
    RequestRefused,
    TopicPartition,
    TransactionListing,
    TransactionsMissing,
)
from headgate.admin.hanging import known_to_coordinators
from headgate.cli.connecting import (
    DEFAULT_SERVER,
    DEFAULT_TIMEOUT_MS,
    ConnectingAndPrinting,
    check_output,
    run_with_admin,
)
from headgate.cli.printing import Row, print_csv, print_json, print_table, printable, say
from headgate.cli.transactions.options import (
    Abort,
    Connection,
    Describe,
    DescribeProducers,
    FindHanging,
    ForceTerminate,
    List,
)
from headgate.cli.transactions.usage import (
    check_abort,
    check_search,
    check_texts,
    states_of,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.domain.wording import did_you_mean

_MS_PER_MINUTE = 60_000

# The names in JSON, and the headings of Kafka's tables.
_LIST = {
    "transactional_id": "TransactionalId",
    "coordinator": "Coordinator",
    "producer_id": "ProducerId",
    "transaction_state": "TransactionState",
}
_DESCRIBE = {
    "coordinator_id": "CoordinatorId",
    "transactional_id": "TransactionalId",
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "transaction_state": "TransactionState",
    "transaction_timeout_ms": "TransactionTimeoutMs",
    "current_transaction_start_time_ms": "CurrentTransactionStartTimeMs",
    "transaction_duration_ms": "TransactionDurationMs",
    "topic_partitions": "TopicPartitions",
}
_PRODUCERS = {
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "latest_coordinator_epoch": "LatestCoordinatorEpoch",
    "last_sequence": "LastSequence",
    "last_timestamp": "LastTimestamp",
    "current_transaction_start_offset": "CurrentTransactionStartOffset",
}
_HANGING = {
    "topic": "Topic",
    "partition": "Partition",
    "producer_id": "ProducerId",
    "producer_epoch": "ProducerEpoch",
    "coordinator_epoch": "CoordinatorEpoch",
    "start_offset": "StartOffset",
    "last_timestamp": "LastTimestamp",
    "duration_min": "Duration(min)",
}


def run(options: Connection, before: Connection) -> int:
    """Run the action of these options, print its result and return the exit code.

    `before` has the options that stood before the name of the action.
    """
    connecting = ConnectingAndPrinting(
        bootstrap_server=options.bootstrap_server or before.bootstrap_server or DEFAULT_SERVER,
        command_config=options.command_config or before.command_config,
        timeout=options.timeout or before.timeout or DEFAULT_TIMEOUT_MS,
        output=options.output or before.output or "table",
    )
    check, act = _ACTIONS[type(options)]

    def checked(admin: Admin) -> int:
        check_output(connecting.output)
        check_texts(options)
        check(options)
        return act(admin, options, connecting.output)

    return run_with_admin(connecting, checked)


def list_transactions(admin: Admin, options: List, output: str) -> int:
    """Print the transactional ids that the filters admit. Return 1 if some may be missing."""
    listings: Sequence[TransactionListing]
    missing = None
    try:
        listings = admin.list_transactions(
            states_of(options.state),
            longer_than_ms=options.duration_filter,
            transactional_id_pattern=options.transactional_id_pattern,
        )
    except TransactionsMissing as error:
        listings, missing = error.listings, error
    rows: list[Row] = [
        {
            "transactional_id": one.transactional_id,
            "coordinator": one.coordinator_id,
            "producer_id": one.producer_id,
            "transaction_state": one.state,
        }
        for one in listings
    ]
    _print(rows, _LIST, "transactions", output)
    if missing is not None:
        say(str(missing))
    return 0 if missing is None else 1


def describe(admin: Admin, options: Describe, output: str) -> int:
    """Print a transactional id with its last transaction. Return 1 if it does not exist."""
    wanted = options.transactional_id
    found = admin.describe_transactions([wanted])[wanted]
    if found is None:
        say(_not_there(admin, wanted))
        return 1
    start = found.start_time_ms
    row: Row = {
        "coordinator_id": found.coordinator_id,
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "transaction_state": found.state,
        "transaction_timeout_ms": found.timeout_ms,
        "current_transaction_start_time_ms": start,
        "transaction_duration_ms": None if start is None else _now() - start,
        "topic_partitions": [str(one) for one in found.partitions],
    }
    _print([row], _DESCRIBE, "transactions", output)
    return 0


def describe_producers(admin: Admin, options: DescribeProducers, output: str) -> int:
    """Print the producers that a partition knows."""
    where = TopicPartition(TopicName(options.topic), options.partition)
    rows: list[Row] = [
        {
            **_producer(one),
            "latest_coordinator_epoch": one.coordinator_epoch,
            "last_sequence": one.last_sequence,
            "current_transaction_start_offset": one.current_transaction_start_offset,
        }
        for one in admin.describe_producers([where], options.broker_id)[where]
    ]
    _print(rows, _PRODUCERS, "producers", output)
    return 0


def find_hanging(admin: Admin, options: FindHanging, output: str) -> int:
    """Print the open transactions that no coordinator will end."""
    try:
        found = admin.find_hanging_transactions(
            options.topic,
            options.partition,
            broker_id=options.broker_id,
            max_transaction_timeout_ms=options.max_transaction_timeout * _MS_PER_MINUTE,
        )
    except RequestRefused as refused:
        if refused.error is ErrorCode.LEADER_NOT_AVAILABLE and options.partition is None:
            refused.add_note("--broker-id, or --topic with --partition, searches other partitions")
        raise
    now = _now()
    rows: list[Row] = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            **_producer(one.producer),
            "coordinator_epoch": one.producer.coordinator_epoch,
            "start_offset": one.start_offset,
            "duration_min": (now - one.producer.last_timestamp) // _MS_PER_MINUTE,
        }
        for one in found
    ]
    _print(rows, _HANGING, "hanging_transactions", output)
    if not rows:
        say("no hanging transactions were found")
    return 0


def abort(admin: Admin, options: Abort, output: str) -> int:
    """Abort a hanging transaction. Return 1 if there is none, or if its coordinator knows it."""
    where = TopicPartition(TopicName(options.topic), options.partition)
    found = [one for one in admin.describe_producers([where])[where] if _is_meant(one, options)]
    if not found:
        say(_no_transaction(where, options))
        return 1
    one = found[0]
    if _has_other_epochs(one, options):
        say(_other_epochs(one, options, where))
        return 1
    known = {} if options.force else known_to_coordinators(admin.cluster, {one.producer_id})
    known_as = known.get((one.producer_id, where))
    if known_as is not None:
        say(_known_to_its_coordinator(known_as, where))
        return 1
    epoch = one.producer_epoch
    admin.abort_transaction(
        where, producer_id=one.producer_id, producer_epoch=epoch, coordinator_epoch=one.coordinator_epoch
    )
    row: Row = {
        "topic": where.topic,
        "partition": where.partition,
        "producer_id": one.producer_id,
        "producer_epoch": epoch,
    }
    text = f"aborted the transaction of producer {one.producer_id} (epoch {epoch}) in {where}"
    _print_done("aborted", row, text, output)
    return 0


def _is_meant(one: ProducerState, options: Abort) -> bool:
    """Return whether the producer has an open transaction, and it is that of the options."""
    start = one.current_transaction_start_offset
    if options.start_offset is None:
        return start is not None and one.producer_id == options.producer_id
    return start == options.start_offset


def _has_other_epochs(one: ProducerState, options: Abort) -> bool:
    """Return whether the options name other epochs than the transaction has.

    The partition would take the greater ones, and then refuse the producer or its coordinator.
    """
    if options.producer_epoch is None:
        return False
    given = options.producer_epoch, max(options.coordinator_epoch or 0, 0)
    return given != (one.producer_epoch, max(one.coordinator_epoch or 0, 0))


def _other_epochs(one: ProducerState, options: Abort, where: TopicPartition) -> str:
    coordinator_epoch = -1 if one.coordinator_epoch is None else one.coordinator_epoch
    return (
        f"the open transaction of producer {one.producer_id} in {where} has the producer epoch "
        f"{one.producer_epoch} and the coordinator epoch {coordinator_epoch}, not {options.producer_epoch} "
        f"and {options.coordinator_epoch}: nothing is aborted; --start-offset "
        f"{one.current_transaction_start_offset} instead of the three options names the transaction"
    )


def _known_to_its_coordinator(transactional_id: str, where: TopicPartition) -> str:
    return (
        f"the transaction does not hang: it is of transactional id {transactional_id}, whose coordinator "
        "will end it in all partitions; to end it now: `headgate transactions forceTerminateTransaction "
        f"--transactional-id {shlex.quote(transactional_id)}`; --force aborts it in {where} alone"
    )


def _no_transaction(where: TopicPartition, options: Abort) -> str:
    if options.start_offset is None:
        what = f"producer {options.producer_id} has no open transaction in {where}"
    else:
        what = f"no open transaction of {where} starts at offset {options.start_offset}"
    return f"{what}; `headgate transactions describe-producers` shows where they start"


def force_terminate(admin: Admin, options: ForceTerminate, output: str) -> int:
    """Abort the transaction of a transactional id and fence its producer. Return 1 if it does not exist."""
    wanted = options.transactional_id
    found = admin.describe_transactions([wanted])[wanted]
    if found is None:
        say(_not_there(admin, wanted))
        return 1
    fenced = admin.force_terminate_transaction(wanted)
    row: Row = {"transactional_id": wanted, **fenced._asdict()}
    was_open = found.state == "Ongoing"
    what = f"the open transaction of {wanted} is aborted" if was_open else f"{wanted} has no open transaction"
    text = f"{what}, and its producers before epoch {fenced.producer_epoch} are fenced"
    _print_done("terminated", row, text, output)
    return 0


def _producer(producer: ProducerState) -> Row:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_timestamp": producer.last_timestamp,
    }


def _print(rows: list[Row], columns: dict[str, str], name: str, output: str) -> None:
    """Print the rows as Kafka's tool does: with a heading also if there are none."""
    if output == "json":
        print_json({name: [{column: row[column] for column in columns} for row in rows]})
    elif output == "csv":
        print_csv([{**row, **_joined(row)} for row in rows], tuple(columns))
    else:
        cells = [{column: _cell(column, row[column]) for column in columns} for row in rows]
        print_table(cells, tuple(columns), tuple(columns.values()))


def _joined(row: Row) -> Row:
    """Return the lists of a row, each as one text."""
    return {name: ",".join(value) for name, value in row.items() if isinstance(value, list)}


def _cell(column: str, value: Any) -> Any:
    """Return what Kafka's tables have: None for what is missing, -1 for an unknown coordinator's epoch."""
    if value is None:
        return -1 if column.endswith("coordinator_epoch") else "None"
    return ",".join(value) if isinstance(value, list) else value


def _print_done(name: str, row: Row, text: str, output: str) -> None:
    if output == "json":
        print_json({name: row})
    elif output == "csv":
        print_csv([row], tuple(row))
    else:
        print(printable(text))


def _not_there(admin: Admin, transactional_id: str) -> str:
    """Return the message for an id that does not exist, with the most similar one if there is one."""
    try:
        ids = [one.transactional_id for one in admin.list_transactions()]
    except TransactionsMissing as error:  # the coordinator of the id itself has answered
        ids = [one.transactional_id for one in error.listings]
    hint = did_you_mean(transactional_id, ids) or "`headgate transactions list` lists all of them"
    return f"there is no transactional id {transactional_id}; {hint}"


def _now() -> int:
    return time.time_ns() // 1_000_000


def _check_nothing(options: Connection) -> None:
    """Accept options that need no check."""


_Check = Callable[[Any], Any]
_Act = Callable[[Admin, Any, str], int]
_ACTIONS: dict[type[Connection], tuple[_Check, _Act]] = {
    List: (lambda options: states_of(options.state), list_transactions),
    Describe: (_check_nothing, describe),
    DescribeProducers: (_check_nothing, describe_producers),
    FindHanging: (check_search, find_hanging),
    Abort: (check_abort, abort),
    ForceTerminate: (_check_nothing, force_terminate),
}
"""For each action the check of its options, and the function that does it."""

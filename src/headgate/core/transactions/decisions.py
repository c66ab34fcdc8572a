"""The decisions on requests of producers: from the state of a transactional id to its next state, if there is
one, and the answer.

The checks are Kafka's, in its order. While Kafka writes markers, a transition of the id is pending; here the
id is prepared. Both are answered with CONCURRENT_TRANSACTIONS: the client asks again.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.core.contract import Producer
from headgate.core.transactions import states
from headgate.core.transactions.commands import (
    PRODUCER_ID_NEEDED,
    AddPartitions,
    DecideTransaction,
    InitProducerId,
    NeedOf,
    ProducerAnswer,
    VerifiedPartitions,
    VerifyPartitions,
)
from headgate.core.transactions.states import PREPARED
from headgate.core.transactions.transitions import (
    GREATEST_EPOCH,
    WITH_EPOCH_BUMP,
    answer_of,
    created,
    fenced,
    initialized,
    initialized_again,
    is_exhausted,
    prepared,
    rotated,
    with_partitions,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.records.transactions import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Partitions,
    TransactionMetadata,
    TransactionState,
)


class Decision(NamedTuple):
    """The next state, None if it does not change, and the answer."""

    record: TransactionMetadata | None
    answer: ProducerAnswer | ErrorCode | NeedOf


def _refused(error: ErrorCode) -> Decision:
    return Decision(None, ProducerAnswer(error))


_NEEDS_PRODUCER_ID = Decision(None, PRODUCER_ID_NEEDED)


# --- InitProducerId ---


def init_producer_id(
    old: TransactionMetadata | None, command: InitProducerId, now: Millis, transaction_version: int
) -> Decision:
    """Begin the life of a producer. An open transaction of an earlier one is aborted, and the client asks
    again.

    `now`: system time. `transaction_version`: the server's.
    """
    if old is None:
        if command.new_producer_id is None:
            return _NEEDS_PRODUCER_ID
        return _initialized(
            created(command.transactional_id, command.new_producer_id, command.timeout_ms, now)
        )
    if old.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if command.expected is not None and not _may_go_on(old, command.expected):
        return _refused(ErrorCode.PRODUCER_FENCED)
    if old.state is states.ONGOING:
        return Decision(
            fenced(old, now, transaction_version), ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
        )
    return _next_epoch(old, command, now)


def _may_go_on(old: TransactionMetadata, expected: Producer) -> bool:
    """Return whether the client has the producer id, or the one before whose epochs were exhausted: it may
    not have received the answer with the new one.
    """
    if expected.producer_id == old.producer_id:
        return True
    return expected.producer_id == old.previous_producer_id and is_exhausted(expected.epoch)


def _next_epoch(old: TransactionMetadata, command: InitProducerId, now: Millis) -> Decision:
    epoch = None if command.expected is None else command.expected.epoch
    if is_exhausted(old.producer_epoch) and epoch in (None, old.producer_epoch, old.last_producer_epoch):
        # Kafka fails for the last of these, a producer at its last epoch whose transaction timed out.
        if command.new_producer_id is None:
            return _NEEDS_PRODUCER_ID
        last_epoch = NO_EPOCH if epoch is None else epoch
        return _initialized(
            rotated(old, command.new_producer_id, command.timeout_ms, now, last_epoch=last_epoch)
        )
    if epoch is None or epoch == old.producer_epoch:
        return _initialized(initialized(old, command.timeout_ms, now, may_be_repeated=epoch is not None))
    if epoch == old.last_producer_epoch:
        return _initialized(initialized_again(old, command.timeout_ms, now))
    return _refused(ErrorCode.PRODUCER_FENCED)


def _initialized(record: TransactionMetadata) -> Decision:
    return Decision(record, ProducerAnswer(ErrorCode.NONE, record.producer_id, record.producer_epoch))


# --- partitions ---


def add_partitions(old: TransactionMetadata | None, command: AddPartitions, now: Millis) -> Decision:
    """Add partitions to the open transaction, or begin one with them."""
    if old is None:
        return Decision(None, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if old.state in PREPARED:
        return Decision(None, ErrorCode.CONCURRENT_TRANSACTIONS)
    error = _check_producer(old, command.producer)
    if error != ErrorCode.NONE:
        return Decision(None, error)
    if old.state is states.ONGOING and not _missing(old, command.partitions):
        return Decision(None, ErrorCode.NONE)
    return Decision(
        with_partitions(old, command.partitions, now, command.client_transaction_version), ErrorCode.NONE
    )


def verify_partitions(old: TransactionMetadata | None, command: VerifyPartitions) -> VerifiedPartitions:
    """Find the partitions that are not part of the open transaction."""
    if old is None:
        return VerifiedPartitions(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    error = _check_producer(old, command.producer)
    if error != ErrorCode.NONE:
        return VerifiedPartitions(error)
    if old.state in PREPARED:
        return VerifiedPartitions(ErrorCode.CONCURRENT_TRANSACTIONS)
    return VerifiedPartitions(ErrorCode.NONE, _missing(old, command.partitions))


def _check_producer(old: TransactionMetadata, producer: Producer) -> ErrorCode:
    if producer.producer_id != old.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.epoch != old.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _missing(old: TransactionMetadata, partitions: Partitions) -> frozenset[tuple[str, int]]:
    none: frozenset[int] = frozenset()
    return frozenset(
        (topic, index)
        for topic, indexes in partitions.items()
        for index in indexes - old.partitions.get(topic, none)
    )


# --- the end of a transaction ---


def end_transaction(old: TransactionMetadata | None, command: DecideTransaction, now: Millis) -> Decision:
    """Decide the outcome of the open transaction."""
    if old is None:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if command.client_transaction_version >= WITH_EPOCH_BUMP:
        return _end_with_epoch_bump(old, command, now)
    error = _check_producer(old, command.producer)
    if error != ErrorCode.NONE:
        return _refused(error)
    if old.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if old.state is states.ONGOING:
        return Decision(prepared(old, command.is_committed, now, 0), ProducerAnswer(ErrorCode.NONE))
    if old.state is _completed_as(command):
        return Decision(None, ProducerAnswer(ErrorCode.NONE))
    return _refused(ErrorCode.INVALID_TXN_STATE)


def _end_with_epoch_bump(old: TransactionMetadata, command: DecideTransaction, now: Millis) -> Decision:
    """Version 2: the epoch tells a repeated request from the end of the next transaction, which may be empty.

    state           abort, repeated   abort   commit, repeated   commit
    Ongoing         fenced            bump    fenced             bump
    Empty           fenced            bump    fenced             INVALID_TXN_STATE
    CompleteAbort   NONE              bump    INVALID_TXN_STATE  INVALID_TXN_STATE
    CompleteCommit  INVALID_TXN_STATE bump    NONE               INVALID_TXN_STATE
    """
    if old.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_repeated = _is_repeated(old, command.producer)
    if command.producer.producer_id != old.producer_id and not is_repeated:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not is_repeated and command.producer.epoch != old.producer_epoch:
        return _refused(ErrorCode.PRODUCER_FENCED)
    if is_repeated:
        if old.state is not _completed_as(command):
            return _refused(ErrorCode.INVALID_TXN_STATE)
        if old.producer_epoch == GREATEST_EPOCH:
            # A timeout ended it. In this epoch the next timeout could not fence the producer.
            return _refused(ErrorCode.PRODUCER_FENCED)
        return Decision(None, ProducerAnswer(ErrorCode.NONE, old.producer_id, old.producer_epoch))
    if command.is_committed and old.state is not states.ONGOING:
        return _refused(ErrorCode.INVALID_TXN_STATE)
    return _decide_with_epoch_bump(old, command, now)


def _is_repeated(old: TransactionMetadata, producer: Producer) -> bool:
    """Return whether the transaction that the request ends is complete: the epoch was raised since."""
    if old.state not in (states.COMPLETE_COMMIT, states.COMPLETE_ABORT):
        return False
    if producer.producer_id == old.producer_id:
        return producer.epoch + 1 == old.producer_epoch
    return (
        producer.producer_id == old.previous_producer_id
        and producer.epoch == GREATEST_EPOCH - 1
        and old.producer_epoch == 0
    )


def _decide_with_epoch_bump(old: TransactionMetadata, command: DecideTransaction, now: Millis) -> Decision:
    next_producer_id = NO_PRODUCER_ID
    if is_exhausted(old.producer_epoch):
        if command.new_producer_id is None:
            return _NEEDS_PRODUCER_ID
        next_producer_id = command.new_producer_id
    record = prepared(old, command.is_committed, now, command.client_transaction_version, next_producer_id)
    return Decision(record, ProducerAnswer(ErrorCode.NONE, *answer_of(record)))


def _completed_as(command: DecideTransaction) -> TransactionState:
    return states.COMPLETE_COMMIT if command.is_committed else states.COMPLETE_ABORT

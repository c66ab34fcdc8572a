"""The transitions of a transactional id: pure functions from its state to the next one.

Rules (Kafka's TransactionMetadata, and KIP-890 for version 2 of the protocol):

1. Every InitProducerId raises the epoch, which fences all earlier producers of the id. The answer can be
   repeated for the epoch before it, as long as nobody else asked.
2. With version 2, every end of a transaction raises the epoch too, before its markers are written. So a
   late request of the transaction cannot reach the next one.
3. Epochs end at 2^15 - 2: the greatest number is left to fence its producer. A producer that has reached it
   gets a new producer id with epoch 0.
4. A transaction that is aborted for its producer (a timeout, or another producer of the id) gets the next
   epoch in both versions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from headgate.core.transactions import states
from headgate.core.transactions.states import BEFORE, BETWEEN_TRANSACTIONS
from headgate.domain.ids import Millis
from headgate.records.transactions import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    Partitions,
    TransactionMetadata,
    TransactionState,
)

GREATEST_EPOCH: Final = 2**15 - 1
"""Only a marker has it."""
WITH_EPOCH_BUMP: Final = 2
"""The first version of the protocol that raises the epoch at every end."""


def is_exhausted(epoch: int) -> bool:
    """Return whether a producer may not get an epoch after this one."""
    return epoch >= GREATEST_EPOCH - 1


def created(transactional_id: str, producer_id: int, timeout_ms: int, now: Millis) -> TransactionMetadata:
    """Return the state of a new transactional id; its first epoch is 0."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        previous_producer_id=producer_id,
        timeout_ms=timeout_ms,
        state=states.EMPTY,
        last_update_timestamp=now,
    )


def initialized(
    old: TransactionMetadata, timeout_ms: int, now: Millis, *, may_be_repeated: bool
) -> TransactionMetadata:
    """Raise the epoch for a producer that begins. `may_be_repeated`: it told which epoch it had."""
    assert not is_exhausted(old.producer_epoch)
    last_epoch = old.producer_epoch if may_be_repeated else NO_EPOCH
    return _begun(old, old.producer_id, old.producer_epoch + 1, last_epoch, timeout_ms, now)


def initialized_again(old: TransactionMetadata, timeout_ms: int, now: Millis) -> TransactionMetadata:
    """Keep the epoch of a producer that repeats its request."""
    again = _begun(old, old.producer_id, old.producer_epoch, old.last_producer_epoch, timeout_ms, now)
    return replace(again, previous_producer_id=old.previous_producer_id)


def rotated(
    old: TransactionMetadata, producer_id: int, timeout_ms: int, now: Millis, *, last_epoch: int
) -> TransactionMetadata:
    """Give a producer that begins a new producer id."""
    return _begun(old, producer_id, 0, last_epoch, timeout_ms, now)


def _begun(
    old: TransactionMetadata, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now: Millis
) -> TransactionMetadata:
    return _moved(
        old,
        states.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=timeout_ms,
        partitions={},
        start_timestamp=NO_TIME,
        last_update_timestamp=now,
    )


def with_partitions(
    old: TransactionMetadata, added: Partitions, now: Millis, client_transaction_version: int
) -> TransactionMetadata:
    """Add partitions; the first ones begin a transaction."""
    partitions = dict(old.partitions)
    for topic, indexes in added.items():
        present = partitions.get(topic)
        partitions[topic] = indexes if present is None else present | indexes
    return _moved(
        old,
        states.ONGOING,
        partitions=partitions,
        start_timestamp=_start(old, now),
        last_update_timestamp=now,
        client_transaction_version=client_transaction_version,
    )


def prepared(
    old: TransactionMetadata,
    is_committed: bool,
    now: Millis,
    client_transaction_version: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> TransactionMetadata:
    """Decide the outcome. `next_producer_id`: replaces the producer id if its epochs are exhausted."""
    epoch, last_epoch = old.producer_epoch, old.last_producer_epoch
    if client_transaction_version >= WITH_EPOCH_BUMP:
        epoch, last_epoch = min(epoch + 1, GREATEST_EPOCH), epoch
    return _decided(old, is_committed, epoch, last_epoch, now, client_transaction_version, next_producer_id)


def fenced(old: TransactionMetadata, now: Millis, transaction_version: int) -> TransactionMetadata:
    """Abort the open transaction in the next epoch, for a producer that did not ask for it.

    `transaction_version`: the server's. From version 2 on, the producer may go on in the next epoch.
    """
    last_epoch = old.producer_epoch if transaction_version >= WITH_EPOCH_BUMP else NO_EPOCH
    epoch = min(old.producer_epoch + 1, GREATEST_EPOCH)
    return _decided(old, False, epoch, last_epoch, now, transaction_version, NO_PRODUCER_ID)


def _decided(
    old: TransactionMetadata,
    is_committed: bool,
    epoch: int,
    last_epoch: int,
    now: Millis,
    transaction_version: int,
    next_producer_id: int,
) -> TransactionMetadata:
    return _moved(
        old,
        states.PREPARE_COMMIT if is_committed else states.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        start_timestamp=_start(old, now),
        last_update_timestamp=now,
        client_transaction_version=transaction_version,
    )


def _start(old: TransactionMetadata, now: Millis) -> Millis:
    """Return the start of the open transaction, or of one that begins: another than that of the last one."""
    if old.state not in BETWEEN_TRANSACTIONS:
        return old.start_timestamp
    return now if now != old.start_timestamp else Millis(now + 1)


def completed(old: TransactionMetadata, now: Millis) -> TransactionMetadata:
    """End a transaction whose markers are durable."""
    producer_id, epoch = answer_of(old)
    return _moved(
        old,
        states.COMPLETE_COMMIT if old.state is states.PREPARE_COMMIT else states.COMPLETE_ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions={},
        last_update_timestamp=now,
    )


def answer_of(decided: TransactionMetadata) -> tuple[int, int]:
    """Return the producer id and the epoch that follow a prepared transaction."""
    if decided.next_producer_id != NO_PRODUCER_ID:
        return decided.next_producer_id, 0
    return decided.producer_id, decided.producer_epoch


def _moved(old: TransactionMetadata, state: TransactionState, **changes: Any) -> TransactionMetadata:
    assert old.state in BEFORE[state], f"{old.state.title} is not followed by {state.title}"
    return replace(old, state=state, previous_producer_id=old.producer_id, **changes)

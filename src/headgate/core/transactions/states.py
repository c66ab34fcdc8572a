"""The states of a transactional id and the transitions between them, as in Kafka.

    Empty           InitProducerId created the producer; no transaction has begun
    Ongoing         partitions were added
    PrepareCommit   decided: the markers are being written, the outcome cannot change any more
    PrepareAbort
    CompleteCommit  all markers are durable
    CompleteAbort

Dead and PrepareEpochFence are states of Kafka's memory: of an id that is being forgotten, and of a producer
that is being fenced before its transaction is aborted. Here both are decided in one step, a tombstone or
PrepareAbort with the next epoch. No record has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.records.transactions import TransactionState

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

BETWEEN_TRANSACTIONS: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open; only these ids expire."""
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})

BEFORE: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: BETWEEN_TRANSACTIONS,
    ONGOING: BETWEEN_TRANSACTIONS | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: BETWEEN_TRANSACTIONS | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: BETWEEN_TRANSACTIONS,
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
"""The states that each state may follow. A new id begins as if it were Empty."""

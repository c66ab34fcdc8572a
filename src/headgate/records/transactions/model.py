"""The record of a transactional id, free of its form on disk.

One record holds all that is known of a transactional id; its tombstone removes the id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from headgate.domain.ids import Millis, TopicName

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = Millis(-1)

Partitions: TypeAlias = Mapping[TopicName, frozenset[int]]
"""Partitions by topic; no topic is without any. Nobody changes one."""


class TransactionState(IntEnum):
    """The state of a transactional id, with Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name of the state, such as "PrepareCommit"."""
        return self.name.title().replace("_", "")


@dataclass(slots=True, frozen=True, kw_only=True)
class TransactionMetadata:
    """The state of a transactional id. Ids, epochs and times are -1 where there are none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Greatest epoch of the producer id. While a transaction is prepared, the epoch of its markers."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before this one, if its producer may repeat the request that led to this one."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last transition."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the prepared transaction, if the epochs of this one are exhausted."""
    timeout_ms: int
    state: TransactionState
    partitions: Partitions = field(default_factory=dict)
    """Partitions of the open or prepared transaction."""
    start_timestamp: Millis = NO_TIME
    """System time at which the last transaction started."""
    last_update_timestamp: Millis
    """System time of the last transition."""
    client_transaction_version: int = 0
    """The version of the transaction protocol that the client used last: 0 or 2."""


@dataclass(slots=True, frozen=True)
class TransactionTombstone:
    """A transactional id is not known any more."""

    transactional_id: str


TransactionRecord: TypeAlias = TransactionMetadata | TransactionTombstone

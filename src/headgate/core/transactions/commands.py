"""The commands of the transaction coordinator, and their results.

A command has values only. A command that may need a new producer id is given one only if it asks: without one
its reply is then `PRODUCER_ID_NEEDED`, and the caller submits it again with a new id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from headgate.core.contract import Producer, TransactionEnd
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.records.transactions import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Partitions,
    TransactionMetadata,
    TransactionState,
)


class NeedOf(Enum):
    """What a command needs to be decided."""

    PRODUCER_ID = auto()


PRODUCER_ID_NEEDED = NeedOf.PRODUCER_ID


@dataclass(slots=True, frozen=True)
class InitProducerId:
    """Begin the life of a producer with a transactional id. Reply: `ProducerAnswer`, `PRODUCER_ID_NEEDED`."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    """The producer id and the epoch that the client had; None: it is new."""
    new_producer_id: int | None = None


@dataclass(slots=True, frozen=True)
class ProducerAnswer:
    """The producer id and the epoch to use from now on; both are -1 with an error, and in answers to clients
    of the first protocol, which keep theirs.
    """

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(slots=True, frozen=True)
class AddPartitions:
    """Add partitions to the open transaction, or to a new one. Reply: an `ErrorCode`."""

    transactional_id: str
    producer: Producer
    partitions: Partitions
    client_transaction_version: int = 0
    is_patient: bool = False
    """Whether it waits for a while if the last transaction is being completed."""


@dataclass(slots=True, frozen=True)
class VerifyPartitions:
    """Find the partitions that are not part of the open transaction. Reply: `VerifiedPartitions`."""

    transactional_id: str
    producer: Producer
    partitions: Partitions


@dataclass(slots=True, frozen=True)
class VerifiedPartitions:
    """An error of all partitions; without one, the partitions that are not part of the transaction."""

    error: ErrorCode
    missing: frozenset[tuple[str, int]] = frozenset()


@dataclass(slots=True, frozen=True)
class DecideTransaction:
    """Decide to commit or abort the open transaction. Reply: `ProducerAnswer`, `PRODUCER_ID_NEEDED`.

    The markers are written afterwards: `AwaitPrepared` tells which.
    """

    transactional_id: str
    producer: Producer
    is_committed: bool
    client_transaction_version: int = 0
    new_producer_id: int | None = None


@dataclass(slots=True, frozen=True)
class AwaitPrepared:
    """Wait for transactions that are prepared. Reply, once there are some: `PreparedTransactions`.

    A shard has one such request at a time; an earlier one is answered with no transactions.
    """


@dataclass(slots=True, frozen=True)
class PreparedTransaction:
    """A transaction whose markers must be written."""

    transactional_id: str
    end: TransactionEnd
    start_timestamp: Millis
    """Tells it from the transaction before it, which may have the same epoch."""
    partitions: Partitions
    transaction_version: int


@dataclass(slots=True, frozen=True)
class PreparedTransactions:
    """Transactions that were prepared since the last reply, or since the shard was loaded."""

    transactions: tuple[PreparedTransaction, ...]


@dataclass(slots=True, frozen=True)
class MarkersWritten:
    """Complete a prepared transaction, whose markers are durable. Reply: an `ErrorCode`.

    INVALID_TXN_STATE: this transaction is not prepared any more.
    """

    transactional_id: str
    producer: Producer
    """The producer id and the epoch of the markers."""
    start_timestamp: Millis


@dataclass(slots=True, frozen=True)
class DescribeTransaction:
    """Return the `TransactionMetadata` of a transactional id, or TRANSACTIONAL_ID_NOT_FOUND, as the reply."""

    transactional_id: str


@dataclass(slots=True, frozen=True)
class TransactionFilter:
    """Which transactions to list; an empty set admits all."""

    states: frozenset[TransactionState] = frozenset()
    are_states_given: bool = False
    """Whether the client named states; if all were unknown, nothing is listed."""
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    """Only those that started longer ago; -1: all."""


@dataclass(slots=True, frozen=True)
class ListTransactions:
    """List some of the shard's transactional ids. Reply: `ListedTransactions`."""

    wanted: TransactionFilter
    rest: Iterator[str] | None = None
    """The rest of the previous reply; None at first."""


@dataclass(slots=True, frozen=True)
class ListedTransactions:
    """Transactional ids that the filter admits; `rest` is None at the end of the list."""

    transactions: tuple[TransactionMetadata, ...]
    rest: Iterator[str] | None

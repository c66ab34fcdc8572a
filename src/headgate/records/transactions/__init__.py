"""The records of `__transaction_state`: the state of a transactional id, and its bytes in Kafka's format."""

from headgate.records.transactions.codec import decode_transaction, encode_transaction
from headgate.records.transactions.model import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    Partitions,
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
)

__all__ = [
    "NO_EPOCH",
    "NO_PRODUCER_ID",
    "NO_TIME",
    "Partitions",
    "TransactionMetadata",
    "TransactionRecord",
    "TransactionState",
    "TransactionTombstone",
    "decode_transaction",
    "encode_transaction",
]

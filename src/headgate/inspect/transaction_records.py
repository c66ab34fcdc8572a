"""The records of `__transaction_state` in words and as JSON values."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from headgate.domain.wording import counted
from headgate.inspect.wording import plain, quoted, time_text
from headgate.records.errors import MalformedRecord
from headgate.records.transactions import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    Partitions,
    TransactionMetadata,
    TransactionState,
    TransactionTombstone,
    decode_transaction,
)

Json = dict[str, Any]

_MOST_PARTITIONS: Final = 100
"""Partitions that are listed; a transaction may have many thousands."""
_STAGES: Final = {
    TransactionState.EMPTY: "has begun no transaction",
    TransactionState.ONGOING: "has an open transaction",
    TransactionState.PREPARE_COMMIT: "commits: markers are being written",
    TransactionState.PREPARE_ABORT: "aborts: markers are being written",
    TransactionState.COMPLETE_COMMIT: "has committed its transaction",
    TransactionState.COMPLETE_ABORT: "has aborted its transaction",
    TransactionState.DEAD: "is being forgotten",
    TransactionState.PREPARE_EPOCH_FENCE: "is being fenced",
}


def transaction_record(key: bytes | None, value: bytes | None) -> Json:
    """Return a record as JSON; `words` is a sentence."""
    try:
        record = decode_transaction(key, value)
    except MalformedRecord as problem:
        return {"kind": "malformed", "words": f"cannot be decoded: {problem}"}
    match record:
        case TransactionTombstone(transactional_id):
            words = f"tombstone: transactional id {quoted(transactional_id)} was forgotten"
            return {"kind": "transaction-tombstone", "words": words, "transactional_id": transactional_id}
        case TransactionMetadata():
            return _metadata(record)


def _metadata(one: TransactionMetadata) -> Json:
    return {
        "kind": "transaction",
        "words": _words(one),
        "transactional_id": one.transactional_id,
        "state": one.state.title,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "last_producer_epoch": _known(one.last_producer_epoch, NO_EPOCH),
        "previous_producer_id": _known(one.previous_producer_id, NO_PRODUCER_ID),
        "next_producer_id": _known(one.next_producer_id, NO_PRODUCER_ID),
        "timeout_ms": one.timeout_ms,
        "start_timestamp": _known(one.start_timestamp, NO_TIME),
        "last_update_timestamp": _known(one.last_update_timestamp, NO_TIME),
        "client_transaction_version": one.client_transaction_version,
        "partition_count": _count(one.partitions),
        "partitions": _listed(one.partitions),
    }


def _words(one: TransactionMetadata) -> str:
    words = f"{quoted(one.transactional_id)} {_STAGES[one.state]}"
    if one.partitions:
        words += f" in {counted(_count(one.partitions), 'partition')}"
    words += f", producer {one.producer_id}, epoch {one.producer_epoch}"
    if one.state is TransactionState.ONGOING and one.start_timestamp != NO_TIME:
        words += f", since {time_text(one.start_timestamp)}, timeout {one.timeout_ms} ms"
    return words


def _known(number: int, unknown: int) -> int | None:
    return None if number == unknown else number


def _count(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def _listed(partitions: Partitions) -> list[str]:
    """Name the partitions, in order, up to a maximum."""
    names = (f"{plain(topic)}-{index}" for topic in sorted(partitions) for index in sorted(partitions[topic]))
    return list(islice(names, _MOST_PARTITIONS))

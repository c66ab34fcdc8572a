"""The kind of shard for transactional ids: partitions of `__transaction_state`."""

from __future__ import annotations

from headgate.core.transactions.shard import TransactionShard
from headgate.domain.ids import TRANSACTION_STATE_TOPIC, Millis
from headgate.domain.settings import Settings
from headgate.records.transactions import TransactionRecord, decode_transaction, encode_transaction
from headgate.runtime.shard_kind import RecordFormat, ShardKind


def _decode(key: bytes | None, value: bytes | None, written: Millis) -> TransactionRecord:
    return decode_transaction(key, value)


def transaction_shards(settings: Settings) -> ShardKind[TransactionShard]:
    """Return the registration of the kind."""
    return ShardKind(
        topic=TRANSACTION_STATE_TOPIC,
        partition_count=settings["transaction.state.log.num.partitions"],
        topic_settings={
            "cleanup.policy": "compact",
            "segment.bytes": str(settings["transaction.state.log.segment.bytes"]),
        },
        records=RecordFormat(encode_transaction, _decode),
        new_shard=lambda: TransactionShard(settings),
    )

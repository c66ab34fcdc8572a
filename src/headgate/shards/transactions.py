"""The kind of shard for transactional ids: partitions of `__transaction_state`."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.events import Event
from headgate.core.transactions.shard import TransactionShard
from headgate.domain.ids import TRANSACTION_STATE_TOPIC, Millis
from headgate.domain.settings import Settings
from headgate.records.transactions import TransactionRecord, decode_transaction, encode_transaction
from headgate.runtime.shard_kind import RecordFormat, ShardKind


def _decode(key: bytes | None, value: bytes | None, written: Millis) -> TransactionRecord:
    return decode_transaction(key, value)


def transaction_shards(
    settings: Settings, on_event: Callable[[Event], None] = lambda event: None
) -> ShardKind[TransactionShard]:
    """Return the registration of the kind. `on_event` is called with each event of a shard."""

    def new_shard() -> TransactionShard:
        shard = TransactionShard(settings)
        shard.events.listener = on_event
        return shard

    return ShardKind(
        topic=TRANSACTION_STATE_TOPIC,
        partition_count=settings["transaction.state.log.num.partitions"],
        topic_settings={
            "cleanup.policy": "compact",
            "segment.bytes": str(settings["transaction.state.log.segment.bytes"]),
        },
        records=RecordFormat(encode_transaction, _decode),
        new_shard=new_shard,
        keys_of=lambda shard: iter(shard.by_id),
    )

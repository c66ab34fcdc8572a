"""The kind of shard for the states of share-partitions: partitions of `__share_group_state`.

The topic is not compacted: a state is a snapshot with the updates after it. Records before the oldest
snapshot that is needed are deleted instead (`headgate.server.share_state`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headgate.core.share.state.shard import ShareStateShard
from headgate.domain.ids import SHARE_STATE_TOPIC
from headgate.domain.settings import Settings
from headgate.records.share_state import decode_share, encode_share
from headgate.runtime.shard_kind import RecordFormat, ShardKind


def share_state_shards(
    settings: Settings, first_commands: Callable[[], Iterable[Any]] = tuple
) -> ShardKind[ShareStateShard]:
    """Return the registration of the kind."""
    return ShardKind(
        topic=SHARE_STATE_TOPIC,
        partition_count=settings["share.coordinator.state.topic.num.partitions"],
        topic_settings={
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "segment.bytes": str(settings["share.coordinator.state.topic.segment.bytes"]),
        },
        records=RecordFormat(encode_share, decode_share, are_long=True),
        new_shard=lambda: ShareStateShard(settings),
        first_commands=first_commands,
        keys_of=lambda shard: (key.name for key in shard.states),
    )

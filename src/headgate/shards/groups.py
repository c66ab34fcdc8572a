"""The kind of shard for groups and their offsets: partitions of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.core.shard import GroupShard
from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.domain.settings import Settings
from headgate.log.record_columns import RecordColumns
from headgate.records import decode, encode
from headgate.records.columns import record_count
from headgate.records.offset_commit import KEY_STARTS
from headgate.records.offset_rows import OffsetRows, Spans, read_rows
from headgate.runtime.shard_kind import RecordFormat, ShardKind
from headgate.shards.group_batches import TurnBatches


class OffsetsInColumns:
    """Decodes many offsets of a log at a time; a `headgate.runtime.shard_kind.ColumnFormat`."""

    def read(self, columns: RecordColumns) -> tuple[NDArray[np.int64], OffsetRows]:
        """Return the indexes of the plain offsets, and their rows. Raises MalformedRecord."""
        keys = Spans(columns.key_starts, columns.key_sizes)
        return read_rows(columns.data, keys, Spans(columns.value_starts, columns.value_sizes))

    def is_apart(self, columns: RecordColumns, at: int) -> bool:
        """Return whether a record has a value and is not an offset."""
        key = columns.key(at)
        return bool(columns.value_sizes[at] >= 0) and key is not None and not key.startswith(KEY_STARTS)


GROUP_RECORDS = RecordFormat(
    encode=encode,
    decode=decode,
    record_count=record_count,
    batches=lambda encode, largest_batch_bytes, may_be_runs: TurnBatches(largest_batch_bytes, may_be_runs),
    columns=OffsetsInColumns(),
)


def group_shards(
    settings: Settings,
    new_shard: Callable[[], GroupShard],
    first_commands: Callable[[], Iterable[Any]] = tuple,
) -> ShardKind[GroupShard]:
    """Return the registration of the kind."""
    return ShardKind(
        topic=GROUP_OFFSETS_TOPIC,
        partition_count=settings["offsets.topic.num.partitions"],
        topic_settings={
            "cleanup.policy": "compact",
            "segment.bytes": str(settings["offsets.topic.segment.bytes"]),
        },
        records=GROUP_RECORDS,
        new_shard=new_shard,
        first_commands=first_commands,
        keys_of=lambda shard: shard.groups.ids(),
    )

"""The requests that scenarios about records are made of: batches, and how they are written and read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from tests.differential.wire import Request

from headgate.log.batch import Record, encode_batch

NOW_MS = time.time_ns() // 1_000_000_000 * 1000
"""The same for both brokers, and young enough to be kept."""

BY_ID_SINCE = {"produce": 13, "fetch": 13}


def batch(*values: str, key: bytes | None = b"k", timestamp: int = NOW_MS, **more: Any) -> bytes:
    """A batch with these values, a second apart; `more` is what `encode_batch` takes."""
    records = [
        Record(key, value.encode(), timestamp + 1000 * number, ()) for number, value in enumerate(values)
    ]
    return bytes(encode_batch(records, **more))


def _topic(api: str, topic: Any, version: int) -> dict[str, Any]:
    """The field by which the version names a topic, which the script knows with its id."""
    if version >= BY_ID_SINCE[api]:
        return {"topic_id": topic if isinstance(topic, uuid.UUID) else topic.id}
    field = "name" if api == "produce" else "topic"
    return {field: topic if isinstance(topic, str) else topic.name}


def produce(topic: Any, partitions: Mapping[int, bytes | None], version: int = 12, acks: int = -1) -> Request:
    """Produce to partitions of one topic: bytes as they are to arrive."""
    data = [{"index": index, "records": records} for index, records in partitions.items()]
    values = {
        "transactional_id": None,
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [_topic("produce", topic, version) | {"partition_data": data}],
    }
    return Request("produce", version, values)


def read(topic: Any, offsets: Mapping[int, int], version: int = 13, **more: Any) -> Request:
    """Fetch without waiting, without a session unless told; `partition` adds to each partition's entry."""
    of_partition = more.pop("partition", {})
    partitions = [
        {
            "partition": index,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        | of_partition
        for index, offset in offsets.items()
    ]
    values = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [_topic("fetch", topic, version) | {"partitions": partitions}] if partitions else [],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return Request("fetch", version, values | more)


def list_offsets(topic: str, timestamps: Mapping[int, int], version: int = 10, **more: Any) -> Request:
    """ListOffsets: partition -> timestamp, or what stands for one."""
    epoch = more.pop("current_leader_epoch", -1)
    partitions = [
        {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
        for index, timestamp in timestamps.items()
    ]
    values = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": partitions}],
        "timeout": 10_000,
    }
    return Request("list_offsets", version, values | more)


def delete_records(topic: str, offsets: Mapping[int, int], version: int = 2) -> Request:
    """DeleteRecords: partition -> the first offset that is to stay."""
    partitions = [{"partition_index": index, "offset": offset} for index, offset in offsets.items()]
    return Request(
        "delete_records",
        version,
        {"topics": [{"name": topic, "partitions": partitions}], "timeout": 10_000},
    )


def epoch_ends(topic: str, epochs: Mapping[int, int], version: int = 4, current: int = -1) -> Request:
    """OffsetForLeaderEpoch: partition -> leader epoch."""
    partitions = [
        {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
        for index, epoch in epochs.items()
    ]
    return Request(
        "offset_for_leader_epoch",
        version,
        {"replica_id": -1, "topics": [{"topic": topic, "partitions": partitions}]},
    )

"""The record of a group's paused partitions in words and as JSON values."""

from __future__ import annotations

from typing import Any

from headgate.domain.ids import topic_id_text
from headgate.domain.wording import counted
from headgate.inspect.wording import plain, quoted, time_text
from headgate.records import Pause, PausedTopicPartitions, PausedTopicPartitionsTombstone
from headgate.records.consumer_model import NEVER

Json = dict[str, Any]


def paused_record(record: PausedTopicPartitions | PausedTopicPartitionsTombstone) -> Json:
    """What is paused in a group, decoded; `words` says it in a sentence."""
    group = quoted(record.group_id)
    if isinstance(record, PausedTopicPartitionsTombstone):
        words = f"tombstone: group {group} has no paused partitions any more"
        return {"kind": "paused-partitions-tombstone", "words": words, "group": record.group_id}
    pauses = dict.fromkeys(
        pause for partitions in record.partitions.values() for pause in partitions.values()
    )
    count = sum(map(len, record.partitions.values()))
    words = f"group {group} has {counted(count, 'paused partition')}"
    known = [pause for pause in pauses if pause.since != NEVER]
    if known:
        oldest = min(known, key=lambda pause: pause.since)
        words += f", since {time_text(oldest.since)} by {plain(oldest.caller)}"
    return {
        "kind": "paused-partitions",
        "words": words,
        "group": record.group_id,
        "topics": {topic_id_text(one): sorted(partitions) for one, partitions in record.partitions.items()},
        "pauses": [_pause(record, pause) for pause in pauses],
    }


def _pause(record: PausedTopicPartitions, pause: Pause) -> Json:
    return {
        "since": None if pause.since == NEVER else pause.since,
        "caller": pause.caller,
        "reason": pause.reason,
        "count": sum(
            one == pause for partitions in record.partitions.values() for one in partitions.values()
        ),
    }

"""Identifiers and units, each with a type of its own so that one is never passed for another.

Times are integers of milliseconds since the epoch (`Millis`), durations are plain `int` named `..._ms`.
A topic id is its 16 bytes as the wire carries them; `ZERO_TOPIC_ID` means "no id".
"""

from __future__ import annotations

from typing import NamedTuple, NewType

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
InstanceId = NewType("InstanceId", str)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)
ProducerId = NewType("ProducerId", int)
Millis = NewType("Millis", int)

ZERO_TOPIC_ID = TopicId(bytes(16))

GROUP_OFFSETS_TOPIC = TopicName("__consumer_offsets")
OFFSETS_HISTORY_TOPIC = TopicName("__consumer_offsets_history")
"""What compaction takes out of the former, partition by partition."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by the topic's name."""

    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

"""Identifiers and units. Each has its own type, so that the type checker finds a mistaken argument.

Times are milliseconds since the epoch (`Millis`). Durations are plain `int`, and their names end in `_ms`.
A topic id is its 16 bytes as on the wire; `ZERO_TOPIC_ID` means "no id". Users get and give it as the text
that Kafka's tools print.
"""

from __future__ import annotations

import contextlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, NamedTuple, NewType, Self

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
InstanceId = NewType("InstanceId", str)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)
ProducerId = NewType("ProducerId", int)
Millis = NewType("Millis", int)

ZERO_TOPIC_ID = TopicId(bytes(16))


def topic_id_text(topic_id: bytes) -> str:
    """Return a topic or cluster id as Kafka's tools print it: URL-safe base64, without padding."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def topic_id_of(text: str) -> TopicId:
    """Return the topic id of such a text. Raises ValueError for a text that is none."""
    with contextlib.suppress(ValueError):
        topic_id = TopicId(urlsafe_b64decode(text + "=="))
        if len(topic_id) == len(ZERO_TOPIC_ID) and topic_id_text(topic_id) == text:
            return topic_id
    raise ValueError(f"a topic id has 22 letters, digits, '-' or '_', as Kafka prints it, not {text!r}")


GROUP_OFFSETS_TOPIC = TopicName("__consumer_offsets")
SHARE_STATE_TOPIC = TopicName("__share_group_state")
TRANSACTION_STATE_TOPIC = TopicName("__transaction_state")
OFFSETS_HISTORY_TOPIC = TopicName("__consumer_offsets_history")
"""Records that compaction removed from `__consumer_offsets`, in the partition of the same number."""


class _TopicPartition(NamedTuple):
    topic: TopicName
    partition: int


class TopicPartition(_TopicPartition):
    """One partition of a topic, identified by the topic's name."""

    __slots__ = ()

    if TYPE_CHECKING:
        # Users make partitions of names that are plain strings.
        def __new__(cls, topic: str, partition: int) -> Self: ...

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

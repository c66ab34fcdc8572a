"""What OffsetCommit and OffsetFetch call a topic: its name, and from version 10 on its id (KIP-848).

A name is that of whatever topic bears it now. An id is one topic's for ever: when the topic is deleted, and
even when another of that name takes its place, the id is nobody's and is answered UNKNOWN_TOPIC_ID. Offsets
are kept by name; those of a deleted topic are erased with it, so that an id never leads to the offsets of
another topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headgate.api.contract import Node
from headgate.domain.errors import ErrorCode

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

TOPIC_IDS_SINCE_VERSION: Final = 10


class NamedTopic(Protocol):
    """A topic in a request: one of its fields is empty, which one depends on the version."""

    name: str
    topic_id: bytes


def find_topic(node: Node, version: int, topic: NamedTopic) -> Topic | None:
    """The topic that a request in this version means; None if there is none."""
    if version >= TOPIC_IDS_SINCE_VERSION:
        return node.topics.by_id(topic.topic_id)
    return node.topics.by_name(topic.name)


def unknown_topic_error(version: int) -> ErrorCode:
    """The error of each partition of a topic that is not there."""
    if version >= TOPIC_IDS_SINCE_VERSION:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

"""How OffsetCommit and OffsetFetch name a topic: by its name, and from version 10 on by its id (KIP-848).

A name is that of the topic that has it now. An id belongs to one topic for ever: after the topic's deletion,
even if another topic takes its name, the id is answered UNKNOWN_TOPIC_ID. Offsets are stored by name; those
of a deleted topic are erased with it, so an id never leads to the offsets of another topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headgate.api.contract import Node
from headgate.domain.errors import ErrorCode

if TYPE_CHECKING:
    from headgate.topics.topic import Topic

TOPIC_IDS_SINCE_VERSION: Final = 10


class NamedTopic(Protocol):
    """A topic in a request: one of its fields is empty, depending on the version."""

    name: str
    topic_id: bytes


def find_topic(node: Node, version: int, topic: NamedTopic) -> Topic | None:
    """Return the topic that a request in this version names; None if there is none."""
    if version >= TOPIC_IDS_SINCE_VERSION:
        return node.topics.by_id(topic.topic_id)
    return node.topics.by_name(topic.name)


def unknown_topic_error(version: int) -> ErrorCode:
    """Return the error code of each partition of an unknown topic."""
    if version >= TOPIC_IDS_SINCE_VERSION:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

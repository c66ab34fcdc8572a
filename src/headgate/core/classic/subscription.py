"""What can be known of a consumer's metadata: the topics in version 0 of ConsumerProtocolSubscription.

All later versions begin as version 0 does: int16 version, an array of topic names, nullable user data.
Metadata is the clients' own affair, so what does not parse is not refused, except for one thing: an array
that claims more entries than there are bytes. Kafka never answers such a join.
"""

from __future__ import annotations

from headgate.domain.ids import TopicName

_VERSION_BYTES = 2
_COUNT_BYTES = 4
_LENGTH_BYTES = 2


def _count(metadata: bytes) -> int | None:
    """How many topics the metadata claims; None when it is too short to say."""
    end = _VERSION_BYTES + _COUNT_BYTES
    return int.from_bytes(metadata[_VERSION_BYTES:end], "big", signed=True) if len(metadata) >= end else None


def claims_too_much(metadata: bytes) -> bool:
    """Whether the metadata claims more topics than it could hold, or fewer than none."""
    count = _count(metadata)
    return count is not None and not 0 <= count <= len(metadata) - _VERSION_BYTES - _COUNT_BYTES


def subscribed_topics(metadata: bytes) -> frozenset[TopicName] | None:
    """The topics a consumer's metadata names; None when it does not parse."""
    count = _count(metadata)
    if count is None or count < 0 or metadata[0] & 0x80:
        return None
    at = _VERSION_BYTES + _COUNT_BYTES
    topics = set()
    for _ in range(count):
        size = int.from_bytes(metadata[at : at + _LENGTH_BYTES], "big")
        at += _LENGTH_BYTES
        name = metadata[at : at + size]
        at += size
        if at > len(metadata):
            return None
        try:
            topics.add(TopicName(name.decode()))
        except UnicodeDecodeError:
            return None
    return frozenset(topics)

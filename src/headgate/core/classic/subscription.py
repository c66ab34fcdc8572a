"""Decode the topics in a consumer's metadata: version 0 of ConsumerProtocolSubscription.

All later versions begin like version 0: int16 version, an array of topic names, nullable user data. Clients
own their metadata, so undecodable metadata is accepted, with one exception: an array that claims more entries
than there are bytes. Kafka never answers such a join.
"""

from __future__ import annotations

from headgate.domain.ids import TopicName

_VERSION_BYTES = 2
_COUNT_BYTES = 4
_LENGTH_BYTES = 2


def _count(metadata: bytes) -> int | None:
    """Return the number of topics that the metadata claims; None if it is too short."""
    end = _VERSION_BYTES + _COUNT_BYTES
    return int.from_bytes(metadata[_VERSION_BYTES:end], "big", signed=True) if len(metadata) >= end else None


def claims_too_much(metadata: bytes) -> bool:
    """Return whether the metadata claims more topics than fit into it, or a negative number."""
    count = _count(metadata)
    return count is not None and not 0 <= count <= len(metadata) - _VERSION_BYTES - _COUNT_BYTES


def subscribed_topics(metadata: bytes) -> frozenset[TopicName] | None:
    """Return the topics in a consumer's metadata; None if it cannot be decoded."""
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

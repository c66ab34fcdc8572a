"""Names of internal topics: clients can neither produce to these topics nor delete them.

Some of them are always compacted.
"""

from __future__ import annotations

from headgate.domain.ids import (
    GROUP_OFFSETS_TOPIC,
    OFFSETS_HISTORY_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

COMPACTED_INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
INTERNAL_TOPICS = COMPACTED_INTERNAL_TOPICS | {OFFSETS_HISTORY_TOPIC, SHARE_STATE_TOPIC}


def is_internal(name: str) -> bool:
    """Return whether the topic belongs to the coordinators."""
    return name in INTERNAL_TOPICS


def has_shard(name: str) -> bool:
    """Return whether a coordinator keeps its state in the topic, and recovers its logs."""
    return name in INTERNAL_TOPICS and name != OFFSETS_HISTORY_TOPIC


def is_always_compacted(name: str) -> bool:
    """Return whether the topic is compacted whatever its settings are, and never deleted from."""
    return name in COMPACTED_INTERNAL_TOPICS

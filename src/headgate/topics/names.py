"""Rules for topic names: Kafka's rules, with Kafka's messages for violations.

A name is 1 to 249 characters of ASCII letters, digits, '.', '_' and '-', other than '.' and '..'. Names that
differ only in '.' against '_' collide, because metric names cannot tell them apart. Some names are internal:
clients can neither produce to these topics nor delete them. Some of them are always compacted.
"""

from __future__ import annotations

import re

from headgate.domain.ids import (
    GROUP_OFFSETS_TOPIC,
    OFFSETS_HISTORY_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

MAXIMUM_LENGTH = 249

COMPACTED_INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
INTERNAL_TOPICS = COMPACTED_INTERNAL_TOPICS | {OFFSETS_HISTORY_TOPIC, SHARE_STATE_TOPIC}

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def why_invalid(name: str) -> str | None:
    """Return why `name` is invalid, as a sentence; None for a valid name."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > MAXIMUM_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name[:MAXIMUM_LENGTH]}...' is longer than the max "
            f"allowed length {MAXIMUM_LENGTH}"
        )
    if not _LEGAL.match(name):
        return (
            f"Topic name is invalid: {name!r} contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Return the key that no two topics may share."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Return whether the topic belongs to the coordinators."""
    return name in INTERNAL_TOPICS


def is_always_compacted(name: str) -> bool:
    """Return whether the topic is compacted whatever its settings are, and never deleted from."""
    return name in COMPACTED_INTERNAL_TOPICS

"""The settings of the dead letters of share groups, and the name of their topic (KIP-1191)."""

from __future__ import annotations

from typing import Final

from headgate.domain.topic_names import why_invalid

TOPIC: Final = "errors.deadletterqueue.topic.name"
"""Of a group: the topic to which its dead letters go; empty for none."""
COPY_RECORD: Final = "errors.deadletterqueue.copy.record.enable"
"""Of a group: whether a dead letter has the key, the value and the headers of its record."""
ENABLE: Final = "errors.deadletterqueue.group.enable"
"""Of a topic: whether it takes dead letters."""
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
"""Of a broker: whether it creates a topic for dead letters that does not exist."""
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
"""Of a broker: with what the name of a topic for dead letters begins."""

WAIT: Final = (
    "Records wait for their dead letters, which cannot be written: the broker's log says why. To give the "
    f"letters up, remove {TOPIC} of the group."
)
"""Why a share-partition cannot begin elsewhere yet."""

_INTERNAL: Final = "__"


def why_invalid_dead_letter_topic(text: str) -> str | None:
    """Return what is expected instead of a text; None if it is valid. Empty means no topic."""
    is_legal = why_invalid(text) is None and not text.startswith(_INTERNAL)
    return None if not text or is_legal else "the name of a topic that does not begin with __, or nothing"

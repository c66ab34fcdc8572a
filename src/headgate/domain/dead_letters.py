"""The name of a share group's dead-letter topic (KIP-1191)."""

from __future__ import annotations

from typing import Final

from headgate.domain.topic_names import why_invalid

_INTERNAL: Final = "__"


def why_invalid_dead_letter_topic(text: str) -> str | None:
    """Return what is expected instead of a text; None if it is valid. Empty means no topic."""
    is_legal = why_invalid(text) is None and not text.startswith(_INTERNAL)
    return None if not text or is_legal else "the name of a topic that does not begin with __, or nothing"

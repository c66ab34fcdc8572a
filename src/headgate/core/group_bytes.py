"""How many bytes the members of a group may send about themselves.

A record is in one batch of the log, and the record of a classic group has all members, each with its metadata
and its assignment. What would make it larger than a log takes is refused before anything is decided: a
decision whose records cannot be written would leave groups and timers as if it had been.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.domain.ids import TopicName

MOST_BYTES: Final = 24 << 20
"""Of the metadata and the ids of all members of a group, of all their assignments, and of the topic names of
one member.

The largest record has twice as much, and ids. A log takes more (`headgate.runtime.local_log`).
"""

TOO_LONG: Final = "The names of the topics are too long together."


def bytes_of(named: Iterable[tuple[str, bytes]]) -> int:
    """Return the bytes of a member's metadata for all its protocols, or of the assignments of all members."""
    return sum(len(data) for _, data in named)


def ids_bytes(*ids: str) -> int:
    """Return how many bytes a member's ids and those of its client have in a record."""
    return sum(len(one.encode()) for one in ids)


def are_too_long(topic_names: Iterable[TopicName] | None) -> bool:
    """Return whether the topic names of one member are too many bytes for its record."""
    return topic_names is not None and sum(len(name.encode()) for name in topic_names) > MOST_BYTES

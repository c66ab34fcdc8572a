"""Rules for topic names: Kafka's rules, with Kafka's messages for violations.

A name is 1 to 249 characters of ASCII letters, digits, '.', '_' and '-', other than '.' and '..'. Names that
differ only in '.' against '_' collide, because metric names cannot tell them apart.
"""

from __future__ import annotations

import re
from typing import Final

MAXIMUM_LENGTH: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


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

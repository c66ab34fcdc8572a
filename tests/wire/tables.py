"""The tables of messages, to be compared with the message classes."""

from __future__ import annotations

from types import ModuleType

from headgate.wire.message import Message
from headgate.wire.messages import ApiInfo

Facts = tuple[int, tuple[int, int], int | None]
"""API key, versions, and the first flexible version, None if there is none."""


def facts_of_messages(module: ModuleType, name: str) -> list[Facts]:
    """Return the facts of an API's request and response from their classes."""
    sides: list[type[Message]] = [getattr(module, name + side) for side in ("Request", "Response")]
    return [(side.API_KEY, side.VERSIONS, side.FLEXIBLE_SINCE) for side in sides]


def facts_of_table(api_key: int, info: ApiInfo) -> Facts:
    """Return the same facts from the table."""
    return api_key, (info.min_version, info.max_version), info.flexible_since

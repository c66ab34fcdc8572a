"""What the tables of messages say, beside what the messages themselves say."""

from __future__ import annotations

from types import ModuleType

from headgate.wire.message import Message
from headgate.wire.messages import ApiInfo

Facts = tuple[int, tuple[int, int], int | None]
"""Key, versions, and from which version on it is flexible; None if it never is."""


def facts_of_messages(module: ModuleType, name: str) -> list[Facts]:
    """Of an API's request and of its response, as their classes say."""
    sides: list[type[Message]] = [getattr(module, name + side) for side in ("Request", "Response")]
    return [(side.API_KEY, side.VERSIONS, side.FLEXIBLE_SINCE) for side in sides]


def facts_of_table(api_key: int, info: ApiInfo) -> Facts:
    """The same as the table says."""
    return api_key, (info.min_version, info.max_version), info.flexible_since

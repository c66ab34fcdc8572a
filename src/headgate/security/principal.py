"""The principal of a connection, in Kafka's notation (`User:alice`)."""

from __future__ import annotations

from typing import Final, NamedTuple

USER_TYPE: Final = "User"


class Principal(NamedTuple):
    """The sender of requests: a type, which is `User` unless a policy has others, and a name."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of clients that did not authenticate, as in Kafka."""

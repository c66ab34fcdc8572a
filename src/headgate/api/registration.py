"""The registration of an API module: an API key, with the functions that serve its requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from headgate.api.contract import Call, Node, Repeat
from headgate.api.denials import deny
from headgate.api.needs import Needs
from headgate.domain.errors import ErrorCode

READ_ASIDE_BYTES = 128 * 1024
"""A larger request is decoded in a thread, unless its API says otherwise."""

Handler = Callable[[Node, Call, Any], Any]
Denier = Callable[[Node, Call, Any, ErrorCode], None]
RepeatMaker = Callable[[Node, Call, Any], Repeat | None]


@dataclass(frozen=True, slots=True)
class Api:
    """One registration. ApiVersions advertises exactly these."""

    key: int
    name: str
    min_version: int
    max_version: int
    request_type: type[Any]
    response_type: type[Any]
    handle: Handler
    repeat: RepeatMaker | None = None
    """For APIs with many equal requests: returns what serves repetitions of this request, which was just
    handled as this call; None if each request should be decoded.
    """
    features: tuple[str, ...] = ()
    """Features beyond Kafka's protocol, by the names that ApiVersions advertises."""
    read_aside_bytes: int = READ_ASIDE_BYTES
    """A larger request is decoded in a thread."""
    _: KW_ONLY
    needs: Needs
    """The rights that a request needs; used only if the policy may deny some."""
    deny: Denier = deny
    """Answers a request that is refused as a whole."""

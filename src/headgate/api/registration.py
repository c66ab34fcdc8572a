"""What an API module registers: an API key, with what serves its requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from headgate.api.contract import Call, Node, Repeat
from headgate.api.denials import deny
from headgate.api.needs import Needs
from headgate.domain.errors import ErrorCode

READ_ASIDE_BYTES = 128 * 1024
"""A larger request is read in a thread, unless its API says otherwise."""

Handler = Callable[[Node, Call, Any], Any]
Denier = Callable[[Node, Call, Any, ErrorCode], None]
RepeatMaker = Callable[[Node, int, Any], Repeat | None]


@dataclass(frozen=True, slots=True)
class Api:
    """One registration: what ApiVersions advertises is exactly the set of these."""

    key: int
    name: str
    min_version: int
    max_version: int
    request_type: type[Any]
    response_type: type[Any]
    handle: Handler
    repeat: RepeatMaker | None = None
    """For APIs that are asked the same over and over: what serves this version of this request, which was
    taken a moment ago, when it comes again; None if it had better be read each time."""
    features: tuple[str, ...] = ()
    """What it knows beyond Kafka's document, by names that ApiVersions advertises."""
    read_aside_bytes: int = READ_ASIDE_BYTES
    """A larger request is read in a thread: it may have many parts."""
    _: KW_ONLY
    needs: Needs
    """The rights that a request takes; asked only where a policy may deny some."""
    deny: Denier = deny
    """Answers a request that is refused as a whole."""

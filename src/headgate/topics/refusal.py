"""How the topics say no: an error code and a sentence for people. Refusals are returned, never raised."""

from __future__ import annotations

from typing import NamedTuple

from headgate.domain.errors import ErrorCode


class Refusal(NamedTuple):
    """Why something was not done; nothing has changed."""

    error: ErrorCode
    message: str

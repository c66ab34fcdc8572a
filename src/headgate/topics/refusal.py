"""Refusals of the topics: an error code and a sentence. Refusals are returned, never raised."""

from __future__ import annotations

from typing import NamedTuple

from headgate.domain.errors import ErrorCode


class Refusal(NamedTuple):
    """The reason why nothing was done or changed."""

    error: ErrorCode
    message: str

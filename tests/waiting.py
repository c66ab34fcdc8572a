"""Waiting for what another process or task brings about: for the thing itself, and never longer than that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
What = str | Callable[[], str]
"""What is waited for; a function where it tells how things stand, as they stand in the end."""

ENOUGH_S = 15.0
"""A server on a busy machine answers within this, many times over."""
PAUSE_S = 0.05
TURN_S = 0.002


def wait_until(found: Callable[[], T | None], what: What, timeout_s: float = ENOUGH_S) -> T:
    """What `found` gives as soon as it is true; fails, saying what was waited for, when it never is."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > deadline:
            raise _not_within(timeout_s, what)
        time.sleep(PAUSE_S)


async def until(found: Callable[[], T | None], what: What, timeout_s: float = ENOUGH_S) -> T:
    """The same in an event loop, whose other tasks go on meanwhile."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > deadline:
            raise _not_within(timeout_s, what)
        await asyncio.sleep(TURN_S)


def _not_within(timeout_s: float, what: What) -> AssertionError:
    return AssertionError(f"not within {timeout_s:g} s: {what if isinstance(what, str) else what()}")

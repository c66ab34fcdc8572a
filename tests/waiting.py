"""Waiting for what another process or task brings about: for the thing itself, and never longer than that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
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
    looks = _looks(found, what, timeout_s)
    while not (value := next(looks)):
        time.sleep(PAUSE_S)
    return value


async def until(found: Callable[[], T | None], what: What, timeout_s: float = ENOUGH_S) -> T:
    """The same in an event loop, whose other tasks go on meanwhile."""
    looks = _looks(found, what, timeout_s)
    while not (value := next(looks)):
        await asyncio.sleep(TURN_S)
    return value


def _looks(found: Callable[[], T | None], what: What, timeout_s: float) -> Iterator[T | None]:
    """What is found, again and again, for as long as there is time."""
    deadline = time.monotonic() + timeout_s
    while True:
        is_last = time.monotonic() > deadline
        yield found()
        if is_last:
            raise AssertionError(f"not within {timeout_s:g} s: {what if isinstance(what, str) else what()}")

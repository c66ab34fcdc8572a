"""Replies of a shard that wait until the log is durable up to the position at which they were computed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from headgate.domain.errors import ErrorCode
from headgate.runtime.asking import NOW, Asker, give_up

OnReply = Callable[[Any], None]
Waiting = tuple[OnReply, Asker | None]
"""Callback of a reply, and the asker that is given up if the callback fails."""

RELEASED_AT_ONCE = 256
"""Replies that are released in one slice: a rebalance answers every member of a group."""
NOBODY: Final[Waiting] = (lambda result: None, None)
"""Receiver of replies to requests that were refused already."""


def answer_one(waiting: Waiting, result: Any) -> None:
    """Send one reply. A failure is that of its asker, and does not delay other replies."""
    on_reply, asker = waiting
    before, NOW.asker = NOW.asker, asker
    try:
        on_reply(result)
    except Exception as failure:
        give_up(asker, failure)
    finally:
        NOW.asker = before


def refuse(waiting: Iterable[Waiting | None], error: ErrorCode) -> None:
    """Answer waiting requests with an error."""
    for one in waiting:
        if one is not None:
            answer_one(one, error)


class HeldReplies:
    """The replies of one shard, in the order of their positions. They are released in slices."""

    __slots__ = ("_held", "_loop", "_on_released", "visible_position")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_released: Callable[[], None]) -> None:
        """`on_released` is called after replies were released."""
        self._loop = loop
        self._on_released = on_released
        self._held: deque[tuple[int, Waiting, Any]] = deque()
        self.visible_position = 0
        """Log offset up to which replies may be released."""

    def are_due(self, position: int, count: int) -> bool:
        """Return whether so many replies, computed at `position`, may be sent at once."""
        return position <= self.visible_position and count <= RELEASED_AT_ONCE

    def hold(self, position: int, waiting: Waiting, result: Any) -> None:
        """Add a reply that was computed at `position`, at or after the positions of all others."""
        self._held.append((position, waiting, result))

    def drop(self) -> list[Waiting]:
        """Drop the replies. Return who waits for them."""
        held, self._held = self._held, deque()
        self.visible_position = 0
        return [waiting for _, waiting, _ in held]

    def move(self, after: int, end: int) -> None:
        """Move the replies with positions above `after` to `end`."""
        held = self._held
        for index in range(len(held) - 1, -1, -1):
            position, waiting, result = held[index]
            if position <= after:
                break
            held[index] = end, waiting, result

    def release(self) -> None:
        """Send the replies up to the visible position."""
        held, visible = self._held, self.visible_position
        if not held or held[0][0] > visible:
            return
        before = NOW.asker
        left = RELEASED_AT_ONCE
        while held and held[0][0] <= visible:
            if not left:
                self._loop.call_soon(self._release_more, held)
                break
            left -= 1
            _, (on_reply, NOW.asker), result = held.popleft()
            try:
                on_reply(result)
            except Exception as failure:  # one failed reply must not delay the others
                give_up(NOW.asker, failure)
        NOW.asker = before
        self._on_released()

    def _release_more(self, held: deque[tuple[int, Waiting, Any]]) -> None:
        """Release more replies in another slice, unless they were dropped meanwhile."""
        if held is self._held:
            self.release()

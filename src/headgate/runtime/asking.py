"""The request that is being handled now, so that a later failure can be attributed to its connection.

A handler passes functions to be called later (a reply, a timer callback, the end of a sync). The receiver
stores the current asker with the function. If the function fails, this asker's connections are closed: a
client never waits for an answer that cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headgate.runtime.failures import Where, unexpected


class Asker(Protocol):
    """One request, or several that are served together."""

    @property
    def is_many(self) -> bool:
        """Whether there are several requests, any of which may cause a failure."""
        ...

    def ask_each(self) -> None:
        """Handle several requests again, each alone. None of them was applied."""
        ...

    def give_up(self) -> None:
        """Close the connections of the requests that are unanswered."""
        ...


class Asking:
    """Holder of the current request; None between requests."""

    __slots__ = ("asker",)

    def __init__(self) -> None:
        self.asker: Asker | None = None


NOW = Asking()
"""One per process: it has one loop, and no request is suspended while it is handled."""


def guarded(action: Callable[..., Any]) -> Callable[..., None]:
    """Wrap `action` for a later call on behalf of the current asker, which is given up if the call fails."""
    asker = NOW.asker

    def run(*given: Any) -> None:
        before, NOW.asker = NOW.asker, asker
        try:
            action(*given)
        except Exception as failure:
            give_up(asker, failure)
        finally:
            NOW.asker = before

    return run


def give_up(asker: Asker | None, failure: Exception) -> None:
    """Report that a reply to `asker` failed, and close its connections."""
    unexpected(Where.REPLY, "a reply could not be made", failure)
    if asker is not None:
        asker.give_up()

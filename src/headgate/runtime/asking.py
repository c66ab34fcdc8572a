"""Who asks: the request that is being handled now, so that a failure behind it finds its connection.

What a handler gives away to be called later (a reply, a timer, the end of a sync) is a function of which
nothing is known. Whoever keeps it notes beside it who was asking, and if the function fails that request is
given up: a client never waits for an answer that cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headgate.runtime.failures import Where, unexpected


class Asker(Protocol):
    """One request, or some that are served together."""

    @property
    def is_many(self) -> bool:
        """Whether these are several requests: what fails them may be one of them."""
        ...

    def ask_each(self) -> None:
        """Handle several requests again, each alone. Nothing of them was applied."""
        ...

    def give_up(self) -> None:
        """Close the connections that wait for an answer that was not made."""
        ...


class Asking:
    """The request of this moment; None between requests."""

    __slots__ = ("asker",)

    def __init__(self) -> None:
        self.asker: Asker | None = None


NOW = Asking()
"""One for the process: it has one loop, and nothing awaits while a request is handled."""


def guarded(action: Callable[..., Any]) -> Callable[..., None]:
    """`action` for later: it runs on behalf of who asks now, who is given up if it fails."""
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
    """A reply to `asker` could not be made."""
    unexpected(Where.REPLY, "a reply could not be made", failure)
    if asker is not None:
        asker.give_up()

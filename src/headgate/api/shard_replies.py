"""Replies of shards in the steps of a request: submit commands, and wait until all replies are there.

A function that submits is given the callback for its reply, as the last argument of the shards' `submit`:

    result = yield from reply_to(partial(node.router.owner_of(group_id).submit, group_id, command))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from headgate.api.contract import RequestSteps

SUBMITTED_AT_ONCE = 200
"""Commands whose replies are waited for together."""

ReplyT = TypeVar("ReplyT")
Submit: TypeAlias = "Callable[[Callable[[ReplyT], None]], None]"
"""Submits one command. Its argument gets the reply."""


def reply_to(submit: Submit[ReplyT]) -> RequestSteps[ReplyT]:
    """Submit a command and return its reply. Many replies come at once; only others are waited for."""
    there: Future[ReplyT] = Future()
    submit(there.set_result)
    yield there if not there.done() else None
    return there.result()


def replies_to(submits: Iterable[Submit[Any]]) -> RequestSteps[list[Any]]:
    """Submit commands, one in each step and a limited number at a time; return the replies in their order."""
    replies: list[Any] = []
    rest = iter(submits)
    while some := list(islice(rest, SUBMITTED_AT_ONCE)):
        there: Future[list[Any]] = Future()
        take_at = gather(len(some), there.set_result)
        for index, submit in enumerate(some):
            submit(take_at(index))
            yield None
        if not there.done():
            yield there
        replies += there.result()
    return replies


def gather(count: int, on_all: Callable[[list[Any]], None]) -> Callable[[int], Callable[[Any], None]]:
    """Return a function from a position, 0 to `count` - 1, to the callback for its result; `on_all` gets all
    results after the last.
    """
    results: list[Any] = [None] * count
    missing = count

    def take_at(index: int) -> Callable[[Any], None]:
        def take(result: Any) -> None:
            nonlocal missing
            results[index] = result
            missing -= 1
            if not missing:
                on_all(results)

        return take

    return take_at

"""Steps that wait for replies of shards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from headgate.api.contract import RequestSteps
from headgate.api.shard_replies import SUBMITTED_AT_ONCE, replies_to, reply_to


def _end(steps: RequestSteps[Any]) -> Any:
    """Run steps that wait for nothing more, and return their result."""
    with pytest.raises(StopIteration) as ended:
        while True:
            assert next(steps) is None
    return ended.value.value


def test_a_reply_that_comes_at_once_is_not_waited_for() -> None:
    """No iteration of the loop passes."""
    assert _end(reply_to(lambda take: take("now"))) == "now"


def test_a_reply_that_comes_later_is_waited_for() -> None:
    """The future is done when the reply is there."""
    waiting: list[Callable[[str], None]] = []
    steps = reply_to(waiting.append)
    future = next(steps)
    assert isinstance(future, Future) and not future.done()
    waiting.pop()("later")
    assert future.done()
    assert _end(steps) == "later"


def test_replies_are_in_the_order_of_the_commands() -> None:
    """A limited number of commands is under way, and none is made before its turn."""
    count = 2 * SUBMITTED_AT_ONCE + 1
    submitted: dict[int, Callable[[Any], None]] = {}
    most = 0

    def submit(number: int, take: Callable[[Any], None]) -> None:
        submitted[number] = take

    steps = replies_to(partial(submit, number) for number in range(count))
    replies: list[int] = []
    try:
        while True:
            future = next(steps)
            if future is not None:
                most = max(most, len(submitted))
                for number in reversed(list(submitted)):
                    submitted.pop(number)(number)
                assert isinstance(future, Future) and future.done()
    except StopIteration as stop:
        replies = stop.value
    assert replies == list(range(count))
    assert most == SUBMITTED_AT_ONCE


def test_no_commands_have_no_replies() -> None:
    """Nothing is waited for."""
    assert _end(replies_to([])) == []

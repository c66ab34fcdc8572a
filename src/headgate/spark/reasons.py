"""Errors that are told without a stack.

Spark shows an error of a Python data source as its whole stack, with the message in the last line. Where the
user alone can mend the cause, the message is all there is to know, and should not be searched for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def without_stack(*kinds: type[Exception]) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Let a function raise errors of these kinds as if they came from here, without what led to them."""

    def decorated(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def called(*arguments: _P.args, **named: _P.kwargs) -> _T:
            try:
                return function(*arguments, **named)
            except kinds as error:
                raise error.with_traceback(None) from None

        return called

    return decorated

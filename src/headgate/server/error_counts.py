"""Counts the error codes in responses, by API and code.

A response may have an error code of its own and one for each group, topic or partition in it. Which fields
have them is found once for each type. Of a long response only the first parts are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, get_args, get_type_hints

from headgate.domain.errors import ErrorCode
from headgate.wire.message import Struct

MOST_PARTS: Final = 100
"""Parts of a response that are looked at: that takes some microseconds."""
_NAMES: Final = {int(code): code.name for code in ErrorCode}


class _Fields:
    """Where a type of struct has error codes: in itself, and in lists of other structs."""

    __slots__ = ("has_code", "lists")

    def __init__(self, struct: type[Any]) -> None:
        hints = get_type_hints(struct)
        self.has_code = "error_code" in hints
        self.lists: list[tuple[str, _Fields]] = []
        for name, hint in hints.items():
            part = next((one for one in _structs_in(hint) if one is not struct), None)
            if part is not None and (fields := _Fields(part)).finds_any:
                self.lists.append((name, fields))

    @property
    def finds_any(self) -> bool:
        """Whether there is any error code."""
        return self.has_code or bool(self.lists)


def _structs_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for inner in get_args(hint):
        yield from _structs_in(inner)


class ErrorCounts:
    """The number of responses' error codes other than NONE."""

    __slots__ = ("_counts", "_fields", "_left")

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self._fields: dict[type[Any], _Fields] = {}
        self._left = 0

    def count(self, api_key: int, response: object) -> None:
        """Count the errors of a response."""
        fields = self._fields.get(type(response))
        if fields is None:
            fields = self._fields[type(response)] = _Fields(type(response))
        if fields.has_code or fields.lists:
            self._left = MOST_PARTS
            self._look(api_key, response, fields)

    def by_api_and_code(self) -> list[tuple[tuple[int, str], int]]:
        """Return the counts by API key and name of the error."""
        return [
            ((key, _NAMES.get(code, str(code))), count) for (key, code), count in sorted(self._counts.items())
        ]

    def _look(self, api_key: int, part: Any, fields: _Fields) -> None:
        if fields.has_code and (code := part.error_code):
            self._counts[api_key, int(code)] += 1
        for name, inner in fields.lists:
            parts = getattr(part, name)
            if type(parts) is not list:
                continue  # absent, or columns of many partitions
            for one in parts:
                if self._left <= 0:
                    return
                self._left -= 1
                self._look(api_key, one, inner)

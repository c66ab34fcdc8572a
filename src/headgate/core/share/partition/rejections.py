"""The last rejections of a share-partition: why records are not delivered any more.

They are kept in memory only, and the last `MOST` of them: the persisted state has no room for a reason. Of an
offset that was rejected twice, the later rejection is kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from headgate.domain.ids import MemberId, Millis

MOST: Final = 1_000
"""Ranges of offsets that are kept; beyond it the one with the lowest offsets is forgotten."""


class Cause(IntEnum):
    """What ended the delivery of a record, as responses number it."""

    UNKNOWN = 0
    """It was archived before this share-partition was loaded, or too many were rejected since."""
    REJECTED = 1
    """A member rejected it."""
    RELEASED = 2
    """A member released it when it had been delivered as often as allowed."""
    LOCK_ENDED = 3
    """Its lock ended when it had been delivered as often as allowed."""
    MEMBER_LEFT = 4
    """The member that had it left when it had been delivered as often as allowed."""
    ARCHIVED = 5
    """An administrator archived it."""
    LIMIT_LOWERED = 6
    """It had been delivered as often as a lower limit allows that was set later."""


class Rejection(NamedTuple):
    """The end of the delivery of a range of offsets."""

    first_offset: int
    last_offset: int
    cause: Cause
    member_id: MemberId | None
    """The member that had the records last."""
    at: Millis
    """Steady time."""
    delivery_count: int


class Rejections:
    """The last rejections of a share-partition, in the order of their offsets, without overlaps."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._kept: list[Rejection] = []

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, rejection: Rejection) -> None:
        """Keep a rejection, in place of earlier ones of the same offsets."""
        self.forget(rejection.first_offset, rejection.last_offset)
        at = bisect_left(self._firsts, rejection.first_offset)
        self._insert(at, rejection)
        if len(self._kept) > MOST:
            del self._firsts[0], self._kept[0]

    def forget(self, first_offset: int, last_offset: int) -> None:
        """Forget what is known of these offsets."""
        begin, end = self._places(first_offset, last_offset)
        rest = [
            part
            for one in self._kept[begin:end]
            for part in (
                one._replace(last_offset=first_offset - 1),
                one._replace(first_offset=last_offset + 1),
            )
            if one.first_offset <= part.first_offset <= part.last_offset <= one.last_offset
        ]
        self._kept[begin:end] = rest
        self._firsts[begin:end] = [one.first_offset for one in rest]

    def between(self, first_offset: int, last_offset: int) -> Iterator[Rejection]:
        """Yield the rejections of these offsets, cut to them; nothing may change meanwhile."""
        begin, end = self._places(first_offset, last_offset)
        for i in range(begin, end):
            one = self._kept[i]
            first, last = max(one.first_offset, first_offset), min(one.last_offset, last_offset)
            yield one._replace(first_offset=first, last_offset=last)

    def _places(self, first_offset: int, last_offset: int) -> tuple[int, int]:
        begin = bisect_right(self._firsts, first_offset)
        if begin and self._kept[begin - 1].last_offset >= first_offset:
            begin -= 1
        return begin, max(begin, bisect_right(self._firsts, last_offset))

    def _insert(self, at: int, rejection: Rejection) -> None:
        before = self._kept[at - 1] if at else None
        if (
            before is not None
            and before.last_offset + 1 == rejection.first_offset
            and before[2:] == rejection[2:]
        ):
            self._kept[at - 1] = before._replace(last_offset=rejection.last_offset)
            return
        self._kept.insert(at, rejection)
        self._firsts.insert(at, rejection.first_offset)

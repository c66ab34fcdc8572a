"""The members that have records of a share-partition, as numbers: a range holds a number instead of a name.

A member that left and comes back has another number. So what it acquires then is not taken for what it left.
"""

from __future__ import annotations

from headgate.core.share.partition.ranges import NOBODY
from headgate.domain.ids import MemberId


class Members:
    """Numbers and ids of members."""

    def __init__(self) -> None:
        self._numbers: dict[MemberId, int] = {}
        """Of the members that did not leave."""
        self._ids: dict[int, MemberId] = {}
        """Also of members that left, until all of their records are taken back."""
        self._last_number = NOBODY

    def number_of(self, member_id: MemberId) -> int:
        """Return the number of a member, a new one if it has none."""
        number = self._numbers.get(member_id)
        if number is None:
            number = self._last_number = self._last_number + 1
            self._numbers[member_id] = number
            self._ids[number] = member_id
        return number

    def known_number(self, member_id: MemberId) -> int:
        """Return the number of a member; NOBODY if it has acquired nothing."""
        return self._numbers.get(member_id, NOBODY)

    def id_of(self, number: int) -> MemberId | None:
        """Return the member of a number; None for NOBODY, and for one that was forgotten."""
        return self._ids.get(number)

    def is_here(self, number: int) -> bool:
        """Return whether the member of a number did not leave."""
        member_id = self._ids.get(number)
        return member_id is not None and self._numbers.get(member_id) == number

    def leave(self, member_id: MemberId) -> int:
        """Note that a member left. Return its number; NOBODY if it has acquired nothing."""
        return self._numbers.pop(member_id, NOBODY)

    def forget(self, number: int) -> None:
        """Forget a member that left, and has no records any more."""
        del self._ids[number]

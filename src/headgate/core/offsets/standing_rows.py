"""Which rows of the offset table belong to standing commits: found once, used as long as they are theirs."""

from __future__ import annotations

from typing import Final

from headgate.records.standing_commits import StandingCommit

MOST_REMEMBERED: Final = 8192


class StandingRows:
    """A bounded memory of rows. What is not in it is found anew."""

    __slots__ = ("_as_of", "_rows")

    def __init__(self) -> None:
        self._rows: dict[StandingCommit, int] = {}
        self._as_of = 0

    def rows(self, changes: int) -> dict[StandingCommit, int]:
        """The rows that are known, to be added to; `changes` are those of the table's rows by now."""
        if changes != self._as_of or len(self._rows) > MOST_REMEMBERED:
            self._rows.clear()
            self._as_of = changes
        return self._rows

"""The records of a simulation: who produced them, in which transaction, and where they are."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from tests.simulation.requests import Violation


class Outcome(Enum):
    """What is known of a transaction."""

    OPEN = "open"
    COMMITTING = "committing"
    """Its commit was requested; whether it happened is unknown."""
    COMMITTED = "committed"
    ABORTED = "aborted"


class Records:
    """All records of one topic."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], bytes] = {}
        """By partition and offset: what was acknowledged to a producer, or delivered."""
        self._acknowledged: dict[tuple[int, int], None] = {}
        self._transactions: dict[bytes, int] = {}
        """The transaction of a value."""
        self.outcomes: dict[int, Outcome] = {}
        self._deleted_before: dict[int, int] = {}

    def producing(self, values: list[bytes], transaction: int | None) -> None:
        """Note values that are about to be sent."""
        if transaction is not None:
            self._transactions.update(dict.fromkeys(values, transaction))

    def produced(self, index: int, base_offset: int, values: list[bytes]) -> None:
        """Note an acknowledged batch. Raises Violation."""
        for offset, value in enumerate(values, base_offset):
            self.delivered(index, offset, value)
            self._acknowledged[index, offset] = None

    def delivered(self, index: int, offset: int, value: bytes) -> None:
        """Check the record at an offset. Raises Violation."""
        known = self._values.setdefault((index, offset), value)
        if known != value:
            raise Violation(f"{index}@{offset} was {known!r}, and is {value!r}")

    def deleting(self, index: int, offset: int) -> None:
        """Note that the records before an offset may be deleted from now on."""
        self._deleted_before[index] = max(offset, self._deleted_before.get(index, 0))

    def acknowledged(self) -> Iterator[tuple[int, int]]:
        """Yield the partition and offset of each record that must exist."""
        return iter(self._acknowledged)

    def _outcome(self, index: int, offset: int) -> Outcome:
        transaction = self._transactions.get(self._values[index, offset])
        return Outcome.COMMITTED if transaction is None else self.outcomes[transaction]

    def may_be_committed(self, index: int, offset: int) -> bool:
        """Return whether a reader of committed records may get this one."""
        return self._outcome(index, offset) in (Outcome.COMMITTING, Outcome.COMMITTED)

    def is_deliverable(self, index: int, offset: int, *, is_committed: bool) -> bool:
        """Return whether a group must get the record at an offset, sooner or later."""
        if (index, offset) not in self._acknowledged or offset < self._deleted_before.get(index, 0):
            return False
        return not is_committed or self._outcome(index, offset) is Outcome.COMMITTED

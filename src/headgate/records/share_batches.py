"""State batches: what a share group persists of the deliveries of ranges of records.

A batch has the state of all offsets from its first to its last one. Acquired is never persisted (R4.3). There
may be a million batches, so many of them are rows of one array, in Kafka's format of a record's value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray


class DeliveryState(IntEnum):
    """The state of a record's delivery, as Kafka numbers it in records and requests."""

    AVAILABLE = 0
    ACQUIRED = 1
    """Only in memory."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Kafka 4.4: rejected, and being copied to a dead-letter topic."""
    ARCHIVED = 4


PERSISTED_STATES: Final = frozenset(
    {
        DeliveryState.AVAILABLE,
        DeliveryState.ACKNOWLEDGED,
        DeliveryState.ARCHIVING,
        DeliveryState.ARCHIVED,
    }
)


class StateBatch(NamedTuple):
    """The state of the offsets from `first_offset` to `last_offset` (inclusive)."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """A `DeliveryState`."""
    delivery_count: int
    """How often the records were delivered; at most 32767."""


ROW: Final = np.dtype(
    [("first", ">i8"), ("last", ">i8"), ("state", "i1"), ("count", ">i2"), ("tags", "u1")],
)
"""A batch as Kafka stores it in a value: 20 bytes, the last of them for no tagged fields."""


class StateBatches:
    """Many batches as rows of an array, which is never changed."""

    __slots__ = ("rows",)

    def __init__(self, rows: NDArray[np.void]) -> None:
        """`rows` has the dtype `ROW`."""
        self.rows = rows

    @classmethod
    def of(cls, batches: Iterable[StateBatch]) -> StateBatches:
        """Return these batches, in this order. Raises OverflowError if a number does not fit its field."""
        return cls(np.array([(*batch, 0) for batch in batches], ROW))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[StateBatch]:
        for first, last, state, count, _ in self.rows.tolist():
            yield StateBatch(first, last, state, count)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateBatches) and self.rows.tobytes() == other.rows.tobytes()

    def __hash__(self) -> int:
        return hash(self.rows.tobytes())

    def __repr__(self) -> str:
        return f"StateBatches({len(self)})" if len(self) > 20 else f"StateBatches.of({list(self)})"


NO_BATCHES: Final = StateBatches(np.zeros(0, ROW))

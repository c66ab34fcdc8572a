"""State batches: what a share group persists of the deliveries of ranges of records.

A batch has the state of all offsets from its first to its last one. Acquired is never persisted (R4.3). There
may be a million batches, so many of them are rows of arrays: first offset, last offset, delivery state and
delivery count. A few are tuples: an operation on an array of one row takes as long as on one of a hundred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray


class DeliveryState(IntEnum):
    """The state of a record's delivery, as Kafka numbers it in records and requests."""

    AVAILABLE = 0
    """No member has the record: the next one that fetches gets it."""
    ACQUIRED = 1
    """A member has the record, until its lock ends. Only in memory: after a restart it is available again."""
    ACKNOWLEDGED = 2
    """A member accepted the record. It is not delivered again."""
    ARCHIVING = 3
    """Kafka 4.4: rejected, and being copied to a dead-letter topic."""
    ARCHIVED = 4
    """Rejected, or delivered as often as allowed, or not there any more. It is not delivered again."""


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


BatchRows: TypeAlias = NDArray[np.int64]
"""Batches, one a row, in the columns `FIRST`, `LAST`, `STATE` and `COUNT`."""
FIRST: Final = 0
LAST: Final = 1
STATE: Final = 2
COUNT: Final = 3

NO_ROWS: Final[BatchRows] = np.zeros((0, 4), np.int64)


FEW: Final = 32
"""Up to so many batches are kept as tuples."""


class StateBatches:
    """Many batches, in arrays that are never changed; or a few."""

    __slots__ = ("_parts", "are_combined", "few")

    def __init__(self, *parts: BatchRows) -> None:
        self._parts = parts
        self.few: tuple[StateBatch, ...] | None = None if parts else ()
        """The batches, in order, if they are tuples and not in arrays."""
        self.are_combined = False
        """Whether they are in arrays that are known to be one combined list, as a state has them (F18)."""

    @classmethod
    def of(cls, batches: Iterable[StateBatch]) -> StateBatches:
        """Return these batches, in this order.

        Many of them with a number of more than 64 bits raise OverflowError.
        """
        listed = tuple(batches)
        if len(listed) > FEW:
            return cls(np.array(listed, np.int64))
        return cls.of_few(listed) if listed else NO_BATCHES

    @classmethod
    def combined(cls, *parts: BatchRows) -> StateBatches:
        """Return batches that are known to be sorted, without overlaps and without equal neighbours."""
        new = cls(*parts)
        new.are_combined = bool(parts)
        return new

    @classmethod
    def of_few(cls, batches: tuple[StateBatch, ...]) -> StateBatches:
        """Return these batches, which stay tuples."""
        new = cls()
        new.few = batches
        return new

    @property
    def parts(self) -> tuple[BatchRows, ...]:
        """The batches, in order, in arrays of any lengths."""
        return (np.array(self.few, np.int64),) if self.few else self._parts

    @property
    def rows(self) -> BatchRows:
        """All batches in one array. Long if there are a million."""
        parts = self.parts
        return parts[0] if len(parts) == 1 else np.concatenate([NO_ROWS, *parts])

    def has_state(self, state: DeliveryState) -> bool:
        """Return whether a batch has this state."""
        if self.few is not None:
            return any(batch.delivery_state == state for batch in self.few)
        return any((part[:, STATE] == state).any() for part in self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts)) if self.few is None else len(self.few)

    def __iter__(self) -> Iterator[StateBatch]:
        if self.few is not None:
            yield from self.few
            return
        for part in self._parts:
            for row in part.tolist():
                yield StateBatch(*row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateBatches) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash(self.rows.tobytes())

    def __repr__(self) -> str:
        return f"StateBatches({len(self)})" if len(self) > 20 else f"StateBatches.of({[*map(tuple, self)]})"


NO_BATCHES: Final = StateBatches()

"""Which records of transactions count, for readers of a log from its end to its start.

A record counts if its transaction was committed, and the marker cannot be lost. Open transactions are told at
the start of the reading, aborted ones with the segment that has their marker, which is read first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headgate.log.header import BatchHeader
from headgate.log.transaction_index import AbortedTransaction
from headgate.topics.partition import Partition


class Undecided(NamedTuple):
    """The transactions that are not decided durably."""

    open: Mapping[int, int]
    """The first offset of each open transaction, by producer id."""
    since: int
    """Offset from which on no record of a transaction counts: a marker after it can still be lost."""


def undecided(partition: Partition) -> Undecided:
    """Return the undecided transactions of a partition now. Raises OSError."""
    first_offsets = {one.producer_id: one.first_offset for one in partition.open_transactions}
    stable, visible = partition.last_stable_offset, partition.high_watermark
    is_explained = stable == min([visible, *first_offsets.values()])
    return Undecided(first_offsets, visible if is_explained else stable)


class Outcomes:
    """The outcomes of the transactions of one log.

    The loop adds to it while the thread of the scan does not read.
    """

    __slots__ = ("_aborted", "_undecided")

    def __init__(self, undecided: Undecided) -> None:
        self._undecided = undecided
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        """First offset and marker of aborted transactions, by producer id."""

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions of the next segment."""
        for one in aborted:
            self._aborted.setdefault(one.producer_id, []).append((one.first_offset, one.last_offset))

    def counts(self, header: BatchHeader) -> bool:
        """Return whether the records of a batch count; those of no transaction do."""
        if not header.is_transactional:
            return True
        offset, producer_id = header.base_offset, header.producer_id
        first_offset = self._undecided.open.get(producer_id)
        if offset >= self._undecided.since or (first_offset is not None and offset >= first_offset):
            return False
        return not any(first <= offset < last for first, last in self._aborted.get(producer_id, ()))

"""The transactions in the files of a partition: what a read of committed records leaves out, where it ends.

The fate of a transaction is in its marker, which may be anywhere behind its records. So the whole log is
scanned when a read is planned; the tasks get what concerns their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from headgate.client.cluster import AbortedTransaction
from headgate.log.batch_records import unpack
from headgate.log.batch_scan import NO_END, Batches, Corruption, CorruptLog, Scan, gather, only
from headgate.spark.committed import committed_only

ABORT = 0
"""The type of the marker of an aborted transaction, an int16 after the version in a marker's key."""


class Aborted(NamedTuple):
    """An aborted transaction: the offsets of its first batch and of its marker."""

    first_offset: int
    last_offset: int
    producer_id: int


@dataclass(slots=True)
class FileTransactions:
    """The transactions of a log, while its batches are read in order."""

    aborted: list[Aborted] = field(default_factory=list)
    _open: dict[int, int] = field(default_factory=dict)
    """The first offset of the open transaction of each producer."""

    @property
    def stable_end(self) -> int:
        """Return the offset of the first open transaction, up to which all records are decided."""
        return min(self._open.values(), default=NO_END)

    def read(self, scan: Scan) -> None:
        """Take the next batches."""
        kinds = _marker_kinds(scan)
        batches = only(scan.batches, scan.batches.is_transactional)
        for first, last, producer_id, is_control in zip(
            batches.base_offset.tolist(),
            batches.last_offset.tolist(),
            batches.producer_id.tolist(),
            batches.is_control.tolist(),
            strict=True,
        ):
            if not is_control:
                self._open.setdefault(producer_id, first)
                continue
            # Without a record, compaction has removed the marker, and before that its whole transaction.
            begin = self._open.pop(producer_id, None)
            if kinds.get(last) == ABORT and begin is not None:
                self.aborted.append(Aborted(begin, last, producer_id))


class _Part(Protocol):
    def scans(self) -> Iterable[Scan]: ...


def transactions_in(parts: Iterable[_Part], *, fail_on_corrupt: bool) -> FileTransactions:
    """Return the transactions of a log, whose parts are in order. Raises CorruptLog, MissingData."""
    found = FileTransactions()
    for part in parts:
        for scan in part.scans():
            _check(scan.corruptions, fail_on_corrupt)
            found.read(scan)
    return found


def without_aborted(aborted: Sequence[Aborted]) -> Callable[[Batches], Batches]:
    """Return a function that leaves the batches of these transactions out of some batches in order."""
    first_offsets, last_offsets, _ = np.array([*aborted, (0, 0, 0)], np.int64)[:-1].T

    def filtered(batches: Batches) -> Batches:
        if not aborted or not len(batches):
            return batches
        is_near = (first_offsets <= batches.last_offset[-1]) & (last_offsets >= batches.base_offset[0])
        near = [aborted[row] for row in np.flatnonzero(is_near).tolist()]
        return committed_only(
            batches, [AbortedTransaction(one.first_offset, one.producer_id) for one in near]
        )

    return filtered


def _check(corruptions: Iterable[Corruption], fail_on_corrupt: bool) -> None:
    found = [one for one in corruptions if not one.is_tail]
    if found and fail_on_corrupt:
        raise CorruptLog(
            f"{found[0]}: a marker may be there, so it is not known which records are committed; to read on "
            "without it set failOnCorrupt to false"
        )


def _marker_kinds(scan: Scan) -> dict[int, int]:
    """Return the type of each marker, by its offset."""
    markers = replace(scan, batches=only(scan.batches, scan.batches.is_control))
    kinds: dict[int, int] = {}
    for records, _ in unpack(markers) if len(markers.batches) else ():
        types = gather(records.payload, ">i2", records.key_at + 2)
        kinds |= dict(zip(records.offset.tolist(), types.tolist(), strict=True))
    return kinds

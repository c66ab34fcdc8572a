"""The transactions that are open where a log is read, and how those ended whose markers are lost.

A lost marker must be written again: without it, the producer's next marker would decide about two
transactions, and a reader of committed records would get aborted ones, or miss committed ones. Rules:

1. If a marker that can have been there has the checksum of the damaged one, it is that.
2. If a .txnindex file has an aborted transaction that ended there, it is an abort.
3. Where these files are complete, it is a commit otherwise.
4. Else it is not known. It is an abort: nobody gets records that may not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, product
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.log.filesystem import read_file
from headgate.log.header import CRC_END, HEADER_BYTES, MAGIC, BatchHeader, Buffer, CorruptBatch, read_header
from headgate.log.markers import EndMarker, encode_marker, read_marker
from headgate.log.rewriting import with_place
from headgate.log.segment_file import TRANSACTION_INDEX_SUFFIX
from headgate.log.transaction_index import AbortedTransaction, AbortedTransactions

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.log.filesystem import FileSystem


_COORDINATOR_EPOCH: Final = Struct(">i")
_COORDINATOR_EPOCH_AT: Final = HEADER_BYTES + 12
"""Behind the fields of the record, which take a byte each, its key of four bytes and the value's version."""
_MARKER_BYTES: Final = HEADER_BYTES + 17
_MOST_TRIED: Final = 100
_USUAL_COORDINATOR_EPOCHS: Final = 16
_PRODUCER_ID_BITS: Final = 63


class LostMarker(NamedTuple):
    """A marker to be written in the place of a lost one."""

    producer_id: int
    batch: bytes
    is_committed: bool
    is_exact: bool
    """Whether it is the one that was there, bit by bit."""
    is_known: bool
    """Whether it is known how the transaction ended."""


class OpenTransactions:
    """The open transactions at the end of what was read of a log."""

    def __init__(self, files: FileSystem, directory: Path, known_to: int) -> None:
        """Below `known_to` the .txnindex files have all aborted transactions. Raises OSError."""
        self._aborted: dict[int, list[AbortedTransaction]] = defaultdict(list)
        """By producer, in order."""
        for one in sorted(_aborted_in(files, directory), key=_last_offset):
            self._aborted[one.producer_id].append(one)
        self._known_to = known_to
        self._epochs: dict[int, int] = {}
        """By producer, of those in a transaction."""
        self._coordinator_epochs = {0}

    @property
    def producer_ids(self) -> list[int]:
        """The producers in a transaction."""
        return sorted(self._epochs)

    def may_have_ended(self, first: int, end: int) -> list[int]:
        """Return the producers whose transactions may have ended between two offsets."""
        following = ((one, self._next_aborted(one, first)) for one in self.producer_ids)
        return [
            producer_id
            for producer_id, aborted in following
            if aborted is None or not aborted.first_offset < first < end <= aborted.last_offset
        ]

    def take(self, header: BatchHeader, batch: Buffer) -> None:
        """Go on behind a good batch."""
        if header.producer_id < 0 or not header.is_transactional:
            return
        if not header.is_control:
            self._epochs[header.producer_id] = header.producer_epoch
            return
        self._epochs.pop(header.producer_id, None)
        try:
            marker = read_marker(batch) if header.record_count else None
        except CorruptBatch:
            return
        if marker is not None and len(self._coordinator_epochs) < _MOST_TRIED:
            self._coordinator_epochs.add(marker.coordinator_epoch)

    def marker_in(self, data: Buffer, offset: int) -> LostMarker | None:
        """Return the marker in the place of one bad batch at an offset; None if it can hardly be one."""
        bad = read_header(data)
        if len(data) != _MARKER_BYTES and not (
            bad.magic == MAGIC and bad.is_control and bad.base_offset == offset
        ):
            return None
        for one, marker in self._candidates(bad._replace(base_offset=offset), data):
            batch = _marker(one, marker)
            difference = read_header(batch).crc ^ bad.crc
            is_all_but_checksum = difference.bit_count() == 1 and batch[CRC_END:] == bytes(data[CRC_END:])
            if not difference or is_all_but_checksum:
                self._epochs.pop(one.producer_id, None)
                return LostMarker(one.producer_id, batch, marker.is_committed, is_exact=True, is_known=True)
        looks_so = len(data) == _MARKER_BYTES and bad.is_control and bad.base_sequence < 0
        if not looks_so or bad.producer_id not in self._epochs:
            return None  # it is no marker, or ends nothing that is there
        following = self._next_aborted(bad.producer_id, offset)
        if following is not None and following.first_offset <= offset < following.last_offset:
            return None  # its transaction ended later
        is_aborted = self.is_aborted(bad.producer_id, offset)
        is_known = is_aborted or offset < self._known_to
        bad = bad._replace(base_offset=offset)
        return self._ended(bad, offset, is_committed=is_known and not is_aborted, is_known=is_known)

    def _candidates(self, bad: BatchHeader, data: Buffer) -> Iterator[tuple[BatchHeader, EndMarker]]:
        """Yield the markers that may have been there: one field of the header may be wrong, or the record."""
        own = self._epochs.get(bad.producer_id, bad.producer_epoch)
        headers = [bad, bad._replace(max_timestamp=bad.base_timestamp), bad._replace(producer_epoch=own)]
        headers += [
            bad._replace(producer_id=producer_id, producer_epoch=epoch)
            for producer_id, of_batches in islice(self._epochs.items(), _MOST_TRIED)
            for epoch in {of_batches, bad.producer_epoch}
        ]
        headers += [
            bad._replace(producer_id=bad.producer_id ^ (1 << bit)) for bit in range(_PRODUCER_ID_BITS)
        ]
        coordinator_epochs = {*self._coordinator_epochs, *range(_USUAL_COORDINATOR_EPOCHS)}
        if len(data) >= _COORDINATOR_EPOCH_AT + _COORDINATOR_EPOCH.size:
            coordinator_epochs.add(_COORDINATOR_EPOCH.unpack_from(data, _COORDINATOR_EPOCH_AT)[0])
        for header, coordinator_epoch in product(headers, coordinator_epochs):
            for is_committed in (True, False):
                yield header, EndMarker(is_committed, coordinator_epoch)

    def ends_between(self, first: int, end: int, like: BatchHeader | None) -> dict[int, LostMarker]:
        """Return the markers that must have been between two offsets: those of the .txnindex files,
        and commits of producers that have an aborted transaction later, which began there or later.

        They get the leader epoch and the largest timestamp of the batch `like`.
        """
        found = self.aborts_between(first, end, like)
        if like is None or self._known_to < end:
            return found
        for producer_id in self.producer_ids:
            following = self._next_aborted(producer_id, first)
            if following is None or following.first_offset < first:
                continue
            last = min(following.first_offset, end)  # the open one ended before
            free = next((one for one in range(last - 1, first - 1, -1) if one not in found), None)
            if free is not None:
                bad = like._replace(producer_id=producer_id, producer_epoch=self._epochs[producer_id])
                found[free] = self._ended(bad, free, is_committed=True)
        return found

    def aborts_between(self, first: int, end: int, like: BatchHeader | None) -> dict[int, LostMarker]:
        """Return the markers between two offsets that abort an open transaction by the .txnindex files.

        They get the leader epoch and the largest timestamp of the batch `like`.
        """
        found: dict[int, LostMarker] = {}
        if like is None:
            return found
        for producer_id in self.producer_ids:
            following = self._next_aborted(producer_id, first)
            if following is not None and following.first_offset < first <= following.last_offset < end:
                bad = like._replace(producer_id=producer_id, producer_epoch=self._epochs[producer_id])
                found[following.last_offset] = self._ended(bad, following.last_offset, is_committed=False)
        return found

    def _next_aborted(self, producer_id: int, first: int) -> AbortedTransaction | None:
        """Return a producer's first aborted transaction that ended at an offset or later."""
        of_producer = self._aborted.get(producer_id, [])
        at = bisect_left(of_producer, first, key=_last_offset)
        return of_producer[at] if at < len(of_producer) else None

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Return whether the .txnindex files have a transaction of a producer that was aborted there."""
        found = self._next_aborted(producer_id, offset)
        return found is not None and found.last_offset == offset

    def _ended(
        self, bad: BatchHeader, offset: int, *, is_committed: bool, is_known: bool = True
    ) -> LostMarker:
        del self._epochs[bad.producer_id]
        batch = _marker(
            bad._replace(base_offset=offset), EndMarker(is_committed, max(self._coordinator_epochs))
        )
        return LostMarker(bad.producer_id, batch, is_committed, is_exact=False, is_known=is_known)


def _marker(bad: BatchHeader, marker: EndMarker) -> bytes:
    batch = encode_marker(marker, bad.producer_id, bad.producer_epoch, bad.max_timestamp)
    return with_place(bytes(batch), bad.base_offset, bad.leader_epoch)


def _last_offset(one: AbortedTransaction) -> int:
    return one.last_offset


def _aborted_in(files: FileSystem, directory: Path) -> Iterator[AbortedTransaction]:
    """Yield what all .txnindex files say, also those of segments that are missing."""
    if not files.exists(directory):
        return
    for name in sorted(files.listdir(directory)):
        if name.endswith(TRANSACTION_INDEX_SUFFIX):
            found = AbortedTransactions.from_bytes(read_file(files, directory / name))
            yield from found if found is not None else ()

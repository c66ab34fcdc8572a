"""Put a mended log together: what is kept of its segments, what is restored, and what fills lost offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headgate.log.header import BatchHeader, Buffer, read_header
from headgate.log.index import MOST_RELATIVE_OFFSET
from headgate.log.known_log import KnownLog
from headgate.log.lost_markers import LostMarker, OpenTransactions
from headgate.log.rewriting import empty_batch, with_place
from headgate.log.segment_file import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

_NO_MARKERS: Final[Mapping[int, LostMarker]] = {}


@dataclass(slots=True, frozen=True)
class Loss:
    """A place where something of a log is dropped or missing."""

    file: str
    """The name of a segment: if nothing is dropped, of the one that got the empty batch."""
    position: int
    dropped_bytes: int
    first_offset: int
    end_offset: int
    """The records from `first_offset` to `end_offset - 1` are lost: none, if they are equal."""
    what: str
    transactions: str = ""
    """What is decided about transactions that ended there, or may have."""


@dataclass(slots=True, frozen=True)
class Copied:
    """Good batches of a segment, from one position to another."""

    start: int
    end: int


@dataclass(slots=True)
class MendedSegment:
    """A segment as it should be."""

    base_offset: int
    source: int | None
    """Base offset of the segment that the copies are from; None: it has none."""
    parts: list[Copied | bytes] = field(default_factory=list)
    """Copies, and new batches."""
    is_changed: bool = False
    size: int = 0
    """Bytes that it had."""


class Filling:
    """The mended log, from its start up to the offset `expected`."""

    def __init__(
        self,
        known: KnownLog,
        transactions: OpenTransactions,
        start: int,
        expected: int,
        watched: Iterable[int],
    ) -> None:
        self.known = known
        self.transactions = transactions
        self.places: list[Loss] = []
        self.segments: list[MendedSegment] = []
        self.expected = expected
        self.last: BatchHeader | None = None
        """The header before `expected`."""
        self.ends: dict[int, BatchHeader] = {}
        """Batches by their ends, where these are watched."""
        self.filled: set[int] = set()
        """Ends of new batches."""
        self._watched = frozenset(watched)
        self._start = start
        """Start of the log."""

    def place_at_end(self) -> Loss:
        """Return the place at the end of the last segment."""
        if not self.segments:
            self.segments.append(MendedSegment(self.expected, None, is_changed=True))
        segment = self.segments[-1]
        return Loss(name_of(segment), segment.size, 0, 0, 0, "")

    def place_of(self, start: int, end: int) -> Loss:
        """Return the place of bytes in the segment that is read."""
        return Loss(name_of(self.segments[-1]), start, end - start, 0, 0, "")

    def note(self, file: str, offset: int, what: str) -> None:
        """Note what costs no record."""
        self.places.append(Loss(file, 0, 0, offset, offset, what))

    def restore(self, place: Loss, what: str, batch: bytes) -> None:
        """Put a batch where it was."""
        first = read_header(batch).base_offset
        self.places.append(replace(place, dropped_bytes=0, first_offset=first, end_offset=first, what=what))
        self.segments[-1].is_changed = True
        self.put(batch)

    def put(self, batch: bytes) -> None:
        self.segments[-1].parts.append(batch)
        header = read_header(batch)
        self.filled.add(header.next_offset)
        self._pass(header)

    def pass_gap(self, end_offset: int) -> None:
        """Go on to an offset behind a gap of compaction. Markers that abort an open transaction are put into
        it: compaction never removes them before the records.
        """
        if self.segments and end_offset > self.expected:
            aborts = self.transactions.aborts_between(self.expected, end_offset, self.last)
            for offset in sorted(aborts):
                self.expected = offset
                marker = with_place(aborts[offset].batch, offset, self._epoch_at(self.last))
                what = "the marker of an aborted transaction is missing, and is put where .txnindex has it"
                self.restore(self.place_at_end(), what, marker)
        self.expected = max(self.expected, end_offset)

    def keep(self, position: int, header: BatchHeader, batch: Buffer) -> None:
        """Keep a batch as it is."""
        parts = self.segments[-1].parts
        last = parts[-1] if parts else None
        if isinstance(last, Copied) and last.end == position:
            parts[-1] = Copied(last.start, position + header.size)
        else:
            parts.append(Copied(position, position + header.size))
        self.transactions.take(header, batch)
        self._pass(header)

    def _pass(self, header: BatchHeader) -> None:
        self.last = header
        self.expected = header.next_offset
        if header.next_offset in self._watched:
            self.ends[header.next_offset] = header

    def lose(
        self,
        place: Loss,
        end_offset: int,
        what: str,
        next_one: BatchHeader | None = None,
        markers: Mapping[int, LostMarker] = _NO_MARKERS,
    ) -> None:
        """Note a loss, and fill the offsets up to `end_offset` with these markers and empty batches."""
        neighbour = self.last or next_one
        if not markers:
            markers = self.transactions.ends_between(self.expected, end_offset, neighbour)
        first = min(max(self.expected, self._start), end_offset)
        transactions = self._told(markers, end_offset) if end_offset > self.expected else ""
        self.places.append(
            replace(place, first_offset=first, end_offset=end_offset, what=what, transactions=transactions)
        )
        self.segments[-1].is_changed = True
        timestamp = -1 if neighbour is None else neighbour.max_timestamp
        stops = {end_offset, *self._watched, *markers, *(first for _, first in self.known.starts)}
        while self.expected < end_offset:
            if self.expected - self.segments[-1].base_offset > MOST_RELATIVE_OFFSET:
                self.segments.append(MendedSegment(self.expected, None, is_changed=True))
            if self.expected in markers:
                marker = markers[self.expected].batch
                self.put(with_place(marker, self.expected, self._epoch_at(neighbour)))
                continue
            last = self.segments[-1].base_offset + MOST_RELATIVE_OFFSET
            end = min(one for one in {*stops, last + 1} if one > self.expected)
            self.put(empty_batch(self.expected, end, self._epoch_at(neighbour), timestamp))

    def _epoch_at(self, neighbour: BatchHeader | None) -> int:
        """Return the leader epoch of what is put at the expected offset."""
        epoch = self.known.epoch_of(self.expected)
        if epoch is not None:
            return epoch
        return 0 if neighbour is None else neighbour.leader_epoch

    def _told(self, markers: Mapping[int, LostMarker], end_offset: int) -> str:
        """Return in words what is decided about transactions that may have ended in a lost part."""
        parts = [
            f"the transaction of producer {one.producer_id} that ended here was "
            f"{'committed' if one.is_committed else 'aborted'}"
            if one.is_known
            else f"how the transaction of producer {one.producer_id} ended is not known: it counts as aborted"
            for one in markers.values()
        ]
        still = self.transactions.may_have_ended(self.expected, end_offset)
        if still and len(markers) < end_offset - self.expected:
            some = ", ".join(map(str, still[:5])) + (f" and {len(still) - 5} more" if len(still) > 5 else "")
            parts.append(f"if the transactions of producers {some} ended here, they are open again")
        return "; ".join(parts)


def name_of(segment: MendedSegment) -> str:
    """Return the name of a segment's file, as it was."""
    return segment_name(segment.base_offset if segment.source is None else segment.source)


def segment_name(base_offset: int) -> str:
    """Return the name of a segment."""
    return f"{base_offset:020d}{LOG_SUFFIX}"

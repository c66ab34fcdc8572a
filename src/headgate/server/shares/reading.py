"""The batches that a read of the log returned, as a share-partition looks at them. Pure functions."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.share.partition.model import AcquiredRecords, FetchedRecords
from headgate.domain.setting import LONG_MAX
from headgate.log.header import CONTROL, TRANSACTIONAL, read_bounds
from headgate.log.transaction_index import ListedTransactions


class ReadBatches(NamedTuple):
    """What a read returned, and where each batch ends in it."""

    fetched: FetchedRecords
    ends: Sequence[int]
    """In bytes, one for each of `fetched.batches`."""

    @property
    def record_bytes(self) -> float:
        """Bytes of a record, on the average."""
        batches = self.fetched.batches
        return self.ends[-1] / max(1, batches[-1][1] - batches[0][0] + 1)

    def cut(self, records: bytes, acquired: Sequence[AcquiredRecords]) -> bytes:
        """Return the batches from the one with the first acquired record to the one with the last one."""
        batches, ends = self.fetched.batches, self.ends
        first = max(0, bisect_right(batches, (acquired[0].first_offset, LONG_MAX)) - 1)
        last = bisect_right(batches, (acquired[-1].last_offset, LONG_MAX)) - 1
        begin, end = ends[first - 1] if first else 0, ends[last]
        return records if begin == 0 and end == len(records) else records[begin:end]


def read_batches(offset: int, records: bytes, aborted: ListedTransactions, enough: int) -> ReadBatches:
    """Return the batches of a read at `offset`, at least one, up to the one with the offset `enough`.

    `aborted` has the producer id and the first offset of each aborted transaction among them.
    """
    batches: list[tuple[int, int]] = []
    ends: list[int] = []
    transactional: list[tuple[int, int, int]] = []
    at, size = 0, len(records)
    while at < size:
        base, last, length, attributes, producer_id = read_bounds(records, at)
        if base > enough and batches:
            break
        at += length
        batches.append((base, last))
        ends.append(at)
        if attributes & TRANSACTIONAL:
            transactional.append((len(ends) - 1, attributes, producer_id))
    undeliverable = _undeliverable(batches, transactional, aborted) if transactional else ()
    return ReadBatches(
        FetchedRecords(fetch_offset=offset, batches=batches, undeliverable=undeliverable), ends
    )


def _undeliverable(
    batches: Sequence[tuple[int, int]],
    transactional: Sequence[tuple[int, int, int]],
    aborted: ListedTransactions,
) -> list[tuple[int, int]]:
    """Return the batches that no member gets; `transactional` has index, attributes and producer id."""
    found: list[tuple[int, int]] = []
    producer_ids = {producer_id for _, _, producer_id in transactional}
    begun = deque(aborted.among(producer_ids, batches[-1][1]))
    open_producers: set[int] = set()
    for index, attributes, producer_id in transactional:
        while begun and begun[0][1] <= batches[index][1]:
            open_producers.add(begun.popleft()[0])
        if attributes & CONTROL:
            open_producers.discard(producer_id)
            found.append(batches[index])
        elif producer_id in open_producers:
            found.append(batches[index])
    return found

"""The batches that a read of the log returned, as a share-partition looks at them. Pure functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from headgate.core.share.partition.model import AcquiredRecords, FetchedRecords
from headgate.log.header import BatchHeader, read_header


def headers_of(records: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of each batch."""
    at = 0
    while at < len(records):
        header = read_header(records, at)
        yield at, header
        at += header.size


def fetched_records(
    offset: int, records: bytes, aborted: Sequence[tuple[int, int]], enough: int
) -> FetchedRecords:
    """Return the batches of a read at `offset`, at least one, up to the one with the offset `enough`.

    `aborted` has the producer id and the first offset of each aborted transaction among them.
    """
    batches: list[tuple[int, int]] = []
    undeliverable: list[tuple[int, int]] = []
    begun = deque(sorted(aborted, key=lambda one: one[1]))
    open_producers: set[int] = set()
    for _, header in headers_of(records):
        if header.base_offset > enough and batches:
            break
        batch = (header.base_offset, header.last_offset)
        batches.append(batch)
        if not header.is_transactional:
            continue
        while begun and begun[0][1] <= header.last_offset:
            open_producers.add(begun.popleft()[0])
        if header.is_control:
            open_producers.discard(header.producer_id)
            undeliverable.append(batch)
        elif header.producer_id in open_producers:
            undeliverable.append(batch)
    return FetchedRecords(fetch_offset=offset, batches=batches, undeliverable=undeliverable)


def cut_to(records: bytes, acquired: Sequence[AcquiredRecords]) -> bytes:
    """Return the batches from the one with the first acquired record to the one with the last one."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    begin, end = 0, 0
    for at, header in headers_of(records):
        if header.base_offset > last:
            break
        if header.last_offset < first:
            begin = at + header.size
        end = at + header.size
    return records if begin == 0 and end == len(records) else records[begin:end]

"""Batches of a log in slices. A separate module because mypyc has no asynchronous generators."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Final

from headgate.log.header import BatchHeader
from headgate.runtime.state_log import Batches

RECORDS_AT_ONCE = 4000
"""Plain records that take some milliseconds to load."""
BYTES_AT_ONCE: Final = 1 << 20


async def in_slices(batches: Iterable[tuple[BatchHeader, bytes]]) -> AsyncGenerator[Batches]:
    """Yield the batches in slices, in order. Raises what reading them raises."""
    for held in slices(batches):
        yield held


def slices(batches: Iterable[tuple[BatchHeader, bytes]]) -> Iterator[Batches]:
    """Yield the batches in slices, in order, without suspension."""
    held: list[tuple[BatchHeader, bytes]] = []
    records = size = 0
    for header, batch in batches:
        if held and (records + header.record_count > RECORDS_AT_ONCE or size + header.size > BYTES_AT_ONCE):
            yield held
            held, records, size = [], 0, 0
        held.append((header, batch))
        records += header.record_count
        size += header.size
    if held:
        yield held

"""The batches of a log in slices. A module of its own because mypyc has no asynchronous generators."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Final

from headgate.log.header import BatchHeader
from headgate.runtime.state_log import Batches

RECORDS_AT_ONCE = 4000
"""Some milliseconds' worth of plain records."""
BYTES_AT_ONCE: Final = 1 << 20


async def in_slices(batches: Iterable[tuple[BatchHeader, bytes]]) -> AsyncGenerator[Batches]:
    """All of these batches, in order. Raises what reading them raises."""
    for held in slices(batches):
        yield held


def slices(batches: Iterable[tuple[BatchHeader, bytes]]) -> Iterator[Batches]:
    """The same for who reads them at once."""
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

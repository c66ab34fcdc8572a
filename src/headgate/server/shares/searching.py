"""The search of a dead-letter partition for the letters of one share-partition, in steps."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from headgate.api.contract import RequestSteps
from headgate.server.shares.letters import Origin, Searched, WrittenLetter, search
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition

_BYTES: Final = 1 << 20
"""Bytes that are read at once."""
_TAKEN_AT_ONCE: Final = 50

ResultT = TypeVar("ResultT")


def search_letters(
    where: Partition, offset: int, origin: Origin, take: Callable[[WrittenLetter], None]
) -> RequestSteps[None]:
    """Pass the letters from an offset on to `take`. Raises OSError and CorruptBatch."""
    yield from opened_aside(where)
    where = where.current or where
    offset = max(offset, where.log_start_offset)
    end = where.high_watermark
    while offset < end:
        read = where.read(offset, _BYTES, minimum_one=True)
        if read.error or not read.records:
            raise OSError(f"offset {offset} of {where} cannot be read: {read.error.name}")
        found: Searched = yield from aside(partial(search, read.records, origin))
        for number, letter in enumerate(found.letters, 1):
            take(letter)
            if number % _TAKEN_AT_ONCE == 0:
                yield None
        offset = found.end_offset


def aside(work: Callable[[], ResultT]) -> RequestSteps[ResultT]:
    """Run a pure function in a thread and return its result."""
    done: Future[ResultT] = Future()
    yield partial(_run, work, done)
    return done.result()


def _run(work: Callable[[], ResultT], done: Future[ResultT]) -> None:
    done.set_result(work())

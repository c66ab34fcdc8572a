"""Search offsets for ListOffsets: by timestamp, or by one of the special timestamps.

Only visible records are found, those below the high watermark or the last stable offset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from headgate.domain.errors import ErrorCode
from headgate.topics.leader_epochs import LeaderEpochs

if TYPE_CHECKING:
    from headgate.log.log import Log

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


class FoundOffset(NamedTuple):
    """The result of a search: -1 where nothing was found."""

    error: ErrorCode
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class Visible(NamedTuple):
    """The part of a partition that readers see, and the epochs it was written in."""

    end_offset: int
    """The high watermark, or the last stable offset for readers of committed records."""
    high_watermark: int
    leader_epoch: int
    epochs: LeaderEpochs


FindSteps: TypeAlias = "Generator[Callable[[], None] | None, None, FoundOffset]"
"""A search in steps. It yields None to pause, and functions to be run in a thread."""


def find_offset(log: Log | None, visible: Visible, timestamp: int) -> FindSteps:
    """Find, in steps, the first visible record at or after `timestamp` (ms), or the offset of a special
    timestamp.

    `log` is None for a partition that was never written. Raises OSError, CorruptBatch.
    """
    start = log.log_start_offset if log else 0
    if timestamp == LATEST:
        return FoundOffset(ErrorCode.NONE, -1, visible.end_offset, visible.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        is_empty = start >= visible.end_offset
        epoch = visible.leader_epoch if is_empty else visible.epochs.epoch_of(start)
        return FoundOffset(ErrorCode.NONE, -1, start, epoch)
    if log is None or timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return FoundOffset(ErrorCode.NONE)
    if timestamp == MAX_TIMESTAMP:
        # As in Kafka, the record with the greatest timestamp is not found while its transaction is open.
        found = yield from log.search_largest_timestamp(visible.high_watermark)
    else:
        found = yield from log.search_timestamp(timestamp)
    if found is None or found[1] >= visible.end_offset:
        return FoundOffset(ErrorCode.NONE)
    return FoundOffset(ErrorCode.NONE, found[0], found[1], visible.epochs.epoch_of(found[1]))

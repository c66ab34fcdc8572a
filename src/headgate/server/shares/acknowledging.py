"""Acknowledgements of one share-partition in parts: a batch may have a type for each of a million records.

1. All parts are checked before the first one is applied: a refused acknowledgement changes nothing (F7).
2. Then they are applied, each as an acknowledgement of its own. Other requests have their turns between two
   parts. A part may then be refused, because its lock ended meanwhile; the parts before it count.
3. The answer waits for the writes of all parts. Its error is that of the first part that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headgate.api.contract import RequestSteps
from headgate.core.share.partition.model import AcknowledgementBatch, AcknowledgeType
from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId
from headgate.server.shares.partition import SharedPartition
from headgate.server.shares.writing import OnDone

MOST_A_PART: Final = 250
"""Maximum of ranges, types and batches that are looked at in one step."""
MOST_SCATTERED: Final = 100
"""Maximum of batches of one step in a large window: each may change another chunk of it, and of its state."""
LARGE_WINDOW: Final = 20_000
"""Ranges from which on a window is large."""


def acknowledge(
    shared: SharedPartition, member_id: MemberId, batches: Sequence[AcknowledgementBatch], on_done: OnDone
) -> RequestSteps[None]:
    """Acknowledge records, in steps; `on_done` gets the result when it is durable."""
    if _is_short(shared.machine, batches):
        shared.acknowledge(member_id, batches, on_done)
        return
    error = yield from _refusal(shared, member_id, batches)
    if error:
        on_done(error)
        return
    yield from _Parts(shared, member_id, on_done).apply(batches)


def _is_short(machine: SharePartition | None, batches: Sequence[AcknowledgementBatch]) -> bool:
    return len(batches) <= _most_batches(machine, len(batches)) and (
        sum(last - first + 1 for first, last, _ in batches) <= MOST_A_PART
    )


def _most_batches(machine: SharePartition | None, count: int) -> int:
    """Return the maximum of batches of one step, if there are so many."""
    is_large = count > MOST_SCATTERED and machine is not None and machine.range_count > LARGE_WINDOW
    return MOST_SCATTERED if is_large else MOST_A_PART


def _refusal(
    shared: SharedPartition, member_id: MemberId, batches: Sequence[AcknowledgementBatch]
) -> RequestSteps[ErrorCode]:
    """Return the error that the whole acknowledgement has."""
    changed_up_to = -1
    machine = shared.machine
    if machine is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for part in parts_of(machine, batches):
        error = machine.refusal(member_id, part)
        for first, last, types in part:
            if first <= changed_up_to and last >= machine.start_offset:
                error = error or ErrorCode.INVALID_RECORD_STATE
            if types[-1] != AcknowledgeType.RENEW:
                changed_up_to = last
        if error:
            return error
        yield None
    return ErrorCode.NONE


def parts_of(
    machine: SharePartition, batches: Sequence[AcknowledgementBatch]
) -> Iterator[list[AcknowledgementBatch]]:
    """Yield the same acknowledgements in parts, by the ranges of the window as they are at that time."""
    part: list[AcknowledgementBatch] = []
    room = MOST_A_PART
    most_batches = _most_batches(machine, len(batches))
    for first, last, types in batches:
        at = first
        while at <= last:
            end, ranges = _some_ranges(machine, at, last, room)
            if len(types) > 1:
                end = min(end, at + room - 1)
            taken = types[at - first : end - first + 1] if len(types) > 1 else types
            part.append(AcknowledgementBatch(at, end, taken))
            room -= max(ranges, len(taken))
            if room <= 0 or len(part) >= most_batches:
                yield part
                part, room = [], MOST_A_PART
            at = end + 1
    if part:
        yield part


def _some_ranges(machine: SharePartition, first: int, last: int, most: int) -> tuple[int, int]:
    """Return the end of the first `most` ranges, at most `last`, and how many they are, at least one."""
    pieces = machine.pieces(first, last, most)
    if len(pieces) < most:
        return last, max(1, len(pieces))
    return pieces[-1].last, most


class _Parts:
    """The application of an acknowledgement in parts."""

    def __init__(self, shared: SharedPartition, member_id: MemberId, on_done: OnDone) -> None:
        self._shared = shared
        self._member_id = member_id
        self._on_done = on_done
        self._open = 1
        """Parts that are not durable yet; one more until all are applied."""
        self._error = ErrorCode.NONE

    def apply(self, batches: Sequence[AcknowledgementBatch]) -> RequestSteps[None]:
        """Apply all parts, up to one that is refused."""
        machine = self._shared.machine
        for part in parts_of(machine, batches) if machine is not None else ():
            self._open += 1
            self._shared.acknowledge(self._member_id, part, self._done)
            if self._error:
                break
            yield None
        self._done(ErrorCode.NONE)

    def _done(self, error: ErrorCode) -> None:
        self._error = self._error or error
        self._open -= 1
        if not self._open:
            self._on_done(self._error)

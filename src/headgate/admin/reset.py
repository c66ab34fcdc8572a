"""The plan of a reset: pure functions that compute the new offset of each partition from a target.

An offset given by number, by shift or in a list is moved into the log if it lies outside; `asked_for` has the
original. A time later than the last record means the end of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headgate.admin.arguments import refuse_impossible, whole
from headgate.admin.errors import NothingToReset
from headgate.client.cluster import EARLIEST, LATEST, NO_OFFSET
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import Millis, TopicPartition
from headgate.domain.times import millis


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """Reset to the start of the log."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """Reset to the end of the log."""


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """Reset to the committed offset, or to the end of the log if there is none."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """Reset to the same offset in all partitions."""

    offset: int

    def __post_init__(self) -> None:
        """Raises TypeError for anything but an int, ValueError for a negative one."""
        if whole("offset", self.offset) < 0:  # -1 and -2 are the ends of a log for some tools, not for this
            raise ValueError(
                f"offset must be 0 or more, not {self.offset}; "
                "ToEarliest() and ToLatest() are the two ends of a log"
            )


@dataclass(frozen=True, slots=True)
class ToOffsets:
    """Reset to a given offset in each partition."""

    offsets: Mapping[TopicPartition, int]

    def __post_init__(self) -> None:
        """Raises TypeError for what are no partitions or no offsets, ValueError for negative ones."""
        refuse_impossible(self.offsets)


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """Move the committed offset forward by `count` records, or back if `count` is negative."""

    count: int

    def __post_init__(self) -> None:
        """Raises TypeError for anything but an int."""
        whole("count", self.count)


@dataclass(frozen=True, slots=True)
class ToDatetime:
    """Reset to the first record with at least this timestamp: a datetime with a time zone, or in ms."""

    timestamp: datetime | int

    def __post_init__(self) -> None:
        """Raises ValueError for a datetime without a time zone, or for a number that surely has another unit,
        and TypeError for another type.
        """
        millis(self.timestamp)


@dataclass(frozen=True, slots=True)
class ByDuration:
    """Reset to the first record that is not older than this, in ms."""

    duration_ms: int

    def __post_init__(self) -> None:
        """Raises TypeError for anything but an int, ValueError for a negative one."""
        if whole("duration_ms", self.duration_ms) < 0:  # a time to come: the end of every log
            raise ValueError(
                f"duration_ms must be 0 or more, not {self.duration_ms}: it is counted back from now"
            )


Target = ToEarliest | ToLatest | ToCurrent | ToOffset | ToOffsets | ShiftBy | ToDatetime | ByDuration


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """The planned reset of one partition."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """The committed offset at the time of the plan; None: no committed offset."""
    offset: int
    """The offset to commit."""
    asked_for: int
    """The requested offset. It differs from `offset` if it lies outside of the log."""
    is_after_last_record: bool = False
    """Whether a time was asked for that is later than every record: `offset` is the end of the log."""


def outside_of_log(partition: TopicPartition, asked_for: int, offset: int) -> str:
    """Return the message for an offset in whose place the nearest one inside of the log was taken."""
    end = "starts" if asked_for < offset else "ends"
    return f"{partition}: {asked_for} lies outside the log, which {end} at {offset}"


class Planned(Protocol):
    """What the remarks on a plan look at."""

    @property
    def partition(self) -> TopicPartition: ...
    @property
    def offset(self) -> int: ...
    @property
    def asked_for(self) -> int: ...
    @property
    def is_after_last_record(self) -> bool: ...


def remarks_on_plan(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield what the user should know of planned offsets that are not what was asked for."""
    for each in planned:
        if each.asked_for != each.offset:
            yield outside_of_log(each.partition, each.asked_for, each.offset)
    if late := [str(each.partition) for each in planned if each.is_after_last_record]:
        which = late[0] if len(late) == 1 else f"{len(late)} partitions, {late[0]} among them,"
        yield f"no record of {which} is as new as the time asked for: the end of the log is taken"


OffsetsAt = Callable[[int], Mapping[TopicPartition, int]]
"""Returns the offset in each partition for a timestamp, `EARLIEST` or `LATEST`."""


def plan(
    target: Target,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    offsets_at: OffsetsAt,
    now: Millis,
) -> list[PlannedOffset]:
    """Return the planned offset of each partition, sorted. Raises `NothingToReset`."""
    wanted = sorted(set(partitions))
    match target:
        case ToDatetime(timestamp):
            return _plan_from_time(millis(timestamp), wanted, committed, offsets_at)
        case ByDuration(duration_ms):
            return _plan_from_time(now - duration_ms, wanted, committed, offsets_at)
    offsets = _offsets(target, wanted, committed, offsets_at)
    first: Mapping[TopicPartition, int] = {}
    last: Mapping[TopicPartition, int] = {}
    if isinstance(target, ToOffset | ToOffsets | ShiftBy):
        first, last = offsets_at(EARLIEST), offsets_at(LATEST)
    return [
        PlannedOffset(
            partition,
            committed.get(partition),
            min(max(offset, first.get(partition, offset)), last.get(partition, offset)),
            offset,
        )
        for partition, offset in zip(wanted, offsets, strict=True)
    ]


def _plan_from_time(
    timestamp: int,
    wanted: list[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    offsets_at: OffsetsAt,
) -> list[PlannedOffset]:
    """Plan the first record of each partition that is as new as a time, or the end where there is none."""
    found = offsets_at(max(timestamp, 0))
    late = {partition for partition in wanted if found[partition] == NO_OFFSET}
    ends = offsets_at(LATEST) if late else {}
    offsets = {place: ends[place] if place in late else found[place] for place in wanted}
    return [
        PlannedOffset(
            partition,
            committed.get(partition),
            offsets[partition],
            offsets[partition],
            is_after_last_record=partition in late,
        )
        for partition in wanted
    ]


def _offsets(
    target: ToEarliest | ToLatest | ToOffset | ToOffsets | ShiftBy | ToCurrent,
    wanted: list[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    offsets_at: OffsetsAt,
) -> list[int]:
    """Return the offsets that were asked for, in the order of the partitions."""
    match target:
        case ToEarliest():
            return _in_order(offsets_at(EARLIEST), wanted)
        case ToLatest():
            return _in_order(offsets_at(LATEST), wanted)
        case ToOffset(offset):
            return [offset] * len(wanted)
        case ToOffsets(offsets):
            if missing := [str(partition) for partition in wanted if partition not in offsets]:
                raise NothingToReset(f"ToOffsets has no offset for {', '.join(missing)}")
            return _in_order(offsets, wanted)
        case ShiftBy(count):
            return [offset + count for offset in _from_committed(wanted, committed)]
        case ToCurrent():
            has_all = all(partition in committed for partition in wanted)
            ends = {} if has_all else offsets_at(LATEST)
            return [
                committed[partition].offset if partition in committed else ends[partition]
                for partition in wanted
            ]


def _in_order(offsets: Mapping[TopicPartition, int], wanted: list[TopicPartition]) -> list[int]:
    return [offsets[partition] for partition in wanted]


def _from_committed(
    wanted: list[TopicPartition], committed: Mapping[TopicPartition, CommittedOffset]
) -> list[int]:
    missing = [str(partition) for partition in wanted if partition not in committed]
    if missing:
        raise NothingToReset(f"there is no committed offset to shift in {', '.join(missing)}")
    return [committed[partition].offset for partition in wanted]

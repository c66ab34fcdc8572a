"""The deliveries of a share-partition as administrators see and change them, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from headgate.core.share.partition.rejections import Cause
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, Millis
from headgate.records.share_batches import DeliveryState

MOST_RANGES: Final = 1_000
"""Ranges of one page, and of one change."""
NO_TIME: Final = Millis(-1)


class DeliveryRange(NamedTuple):
    """What is known of the delivery of a range of offsets; times are system time, `NO_TIME` for none."""

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int
    member_id: MemberId | None = None
    """The member that has the records; of rejected ones, the member that had them last."""
    since: Millis = NO_TIME
    """When they were acquired, or rejected."""
    locked_until: Millis = NO_TIME
    is_changing: bool = False
    """Whether the state becomes final only when a write is durable."""
    cause: Cause = Cause.UNKNOWN
    """Why rejected records are not delivered any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPage:
    """A page of the deliveries of a share-partition."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    start_offset: int = -1
    """-1: no member has read the share-partition yet."""
    end_offset: int = -1
    ranges: Sequence[DeliveryRange] = ()
    next_offset: int = -1
    """Where the next page begins; -1 after the last one."""


class Alteration(IntEnum):
    """What an administrator does with deliveries, as requests number it."""

    RELEASE = 0
    """Take records back from their members, as if these released them."""
    ARCHIVE = 1
    """Deliver records no more, as if a member rejected them."""
    REDELIVER = 2
    """Deliver records again of which there are dead letters."""


class OffsetRange(NamedTuple):
    """The offsets from the first to the last one."""

    first_offset: int
    last_offset: int


class AlteredRange(NamedTuple):
    """What happens to a range of offsets."""

    first_offset: int
    last_offset: int
    before: DeliveryState | None
    """None: it is not in the window."""
    delivery_count: int
    after: DeliveryState | None
    """None: nothing happens, for the reason in `message`."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterationResult:
    """The result of an alteration, or its plan."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    ranges: Sequence[AlteredRange] = ()
    next_offset: int = -1
    """From where on nothing was looked at, because of `MOST_RANGES`; -1: everything was."""

"""What a shard does by itself: sweep expired offsets and groups, erase the offsets of deleted topics, and
reclaim the room of what was removed.

All may be wide and are cut into slices, one a tick. What is still to be done is volatile: after a reload the
next sweep finds expired offsets again, and who had a topic's offsets erased has to ask again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from headgate.core.classic.groups import ClassicGroups
from headgate.core.classic.offsets import clock_of
from headgate.core.classic.state import ClassicState
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.consumer.offsets import clock_of as consumer_clock_of
from headgate.core.consumer.removal import group_tombstones
from headgate.core.contract import Effects, Reply, Token
from headgate.core.deadlines import Deadlines
from headgate.core.effects import NOTHING, GroupEffects
from headgate.core.offsets.expiry import group_clock
from headgate.core.offsets.removal import Retention, Slice, erase_topic
from headgate.core.offsets.table import OffsetTable
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import GroupTombstone
from headgate.records.columns import Int64s
from headgate.records.model import NO_TIMESTAMP

MINUTE_MS = 60_000

_NAMED_AT_ONCE = 1024
_SWEEP = Timer(TimerKind.SWEEP)
_ERASE = Timer(TimerKind.ERASE)
_RECLAIM = Timer(TimerKind.RECLAIM)
_BETWEEN_RECLAIMS_MS = 10
"""A slice takes some milliseconds; there is time."""


def _nothing(topic: TopicName) -> bool:
    """The subscription of a group without members."""
    return False


class Upkeep:
    """The sweep and the erasure of one shard."""

    __slots__ = (
        "_candidates",
        "_classic",
        "_consumer",
        "_deadlines",
        "_interval_ms",
        "_offsets",
        "_retention_ms",
        "_to_erase",
        "_to_sweep",
    )

    def __init__(
        self,
        settings: Settings,
        offsets: OffsetTable,
        groups: tuple[ClassicGroups, ConsumerGroups],
        deadlines: Deadlines[Timer],
    ) -> None:
        self._retention_ms: int = settings["offsets.retention.minutes"] * MINUTE_MS
        self._interval_ms: int = settings["offsets.retention.check.interval.ms"]
        self._offsets = offsets
        self._classic, self._consumer = groups
        self._deadlines = deadlines
        self._to_sweep: deque[GroupId] = deque()
        """Groups to look at next."""
        self._candidates: Int64s | None = None
        """The numbers of those after them; None while no sweep is under way."""
        self._to_erase: deque[tuple[TopicName, Token]] = deque()

    def loaded(self, now: Millis) -> None:
        """Begin: the first sweep is one interval away."""
        self._to_sweep.clear()
        self._candidates = None
        self._to_erase.clear()
        self._sweep_after(now, self._interval_ms)
        self.reclaim(now)

    def reclaim(self, now: Millis) -> GroupEffects:
        """Drop some of what removals left behind in the table, and come back while there is more of it."""
        if self._offsets.reclaim():
            self._deadlines.set(_RECLAIM, Millis(now + _BETWEEN_RECLAIMS_MS))
        return NOTHING

    def _sweep_after(self, now: Millis, delay_ms: int) -> None:
        self._deadlines.set(_SWEEP, Millis(now + delay_ms))

    # --- expiry ---

    def sweep(self, now: Millis) -> GroupEffects:
        """Remove what is expired, and the empty groups that have nothing left: one slice of it."""
        if self._candidates is None:
            self._to_sweep.extend(self._with_record())
        room = Slice()
        while not room.is_full() and (self._to_sweep or self._next_candidates(now)):
            group_id = self._to_sweep.popleft()
            if not self._sweep_group(group_id, now, room) and room.is_full():
                self._to_sweep.appendleft(group_id)
        is_done = not room.is_full()
        if is_done:
            self._candidates = None
            self.reclaim(now)
        self._sweep_after(now, self._interval_ms if is_done else 0)
        return Effects(room.records)

    def _next_candidates(self, now: Millis) -> bool:
        """Go on with the next groups that have something old; False if there are none left.

        There may be a million: until their turn comes they are but numbers.
        """
        table = self._offsets
        if self._candidates is None:
            self._candidates = table.groups_to_sweep(Millis(now - self._retention_ms))
        while len(self._candidates) and not self._to_sweep:
            group_ids = table.group_ids_of(self._candidates[:_NAMED_AT_ONCE])
            self._candidates = self._candidates[_NAMED_AT_ONCE:]
            self._to_sweep.extend(one for one in group_ids if not self._is_swept_by_record(one))
        return bool(self._to_sweep)

    def _with_record(self) -> Iterator[GroupId]:
        """Groups that are empty by their records."""
        yield from (group_id for group_id, one in self._classic.recorded.items() if not one.members)
        yield from (group_id for group_id, group in self._consumer.by_id.items() if group.is_empty)

    def _is_swept_by_record(self, group_id: GroupId) -> bool:
        recorded, consumer = self._classic.recorded.get(group_id), self._consumer.by_id.get(group_id)
        return (recorded is not None and not recorded.members) or (consumer is not None and consumer.is_empty)

    def _sweep_group(self, group_id: GroupId, now: Millis, room: Slice) -> bool:
        """Whether the group is gone with all its offsets."""
        consumer_group = self._consumer.find(group_id)
        if consumer_group is not None:
            return self._sweep_consumer_group(consumer_group, now, room)
        is_subscribed = _nothing
        is_empty = True
        group = self._classic.live.get(group_id)
        if group is not None:
            is_empty = group.state is ClassicState.EMPTY
            if is_empty and group.pending_joins:
                return False  # somebody is about to join
            clock, is_subscribed = clock_of(group), group.is_subscribed_to
        else:
            recorded = self._classic.recorded.get(group_id)
            clock = group_clock(
                protocol_type=recorded.protocol_type if recorded else "",
                is_empty=True,
                is_stable=False,
                state_timestamp=recorded.state_timestamp if recorded else NO_TIMESTAMP,
                knows_subscription=True,
            )
        retention = Retention(clock, is_subscribed, now, self._retention_ms)
        if not retention.expire(self._offsets, group_id, room) or not is_empty:
            return False
        room.records.append(GroupTombstone(group_id))
        return True

    def _sweep_consumer_group(self, group: ConsumerGroup, now: Millis, room: Slice) -> bool:
        retention = Retention(consumer_clock_of(group), group.is_subscribed_to, now, self._retention_ms)
        if not retention.expire(self._offsets, group.group_id, room) or not group.is_empty:
            return False
        room.records.extend(group_tombstones(group))
        return True

    # --- deleted topics ---

    def erase(self, topic: TopicName, now: Millis, token: Token) -> GroupEffects:
        """Remove all offsets of a topic that nobody commits any more; the reply comes with the last one."""
        self._to_erase.append((topic, token))
        return self.go_on_erasing(now)

    def go_on_erasing(self, now: Millis) -> GroupEffects:
        """One slice of what is to be erased."""
        room = Slice()
        replies = []
        while self._to_erase and not room.is_full():
            topic, token = self._to_erase[0]
            if erase_topic(self._offsets, topic, room):
                self._to_erase.popleft()
                replies.append(Reply(token, ErrorCode.NONE))
        if self._to_erase:
            self._deadlines.set(_ERASE, now)
        return Effects(room.records, replies)

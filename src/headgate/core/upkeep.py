"""The background work of a shard: sweep expired offsets and groups, erase the offsets of deleted topics, and
free the space of removed offsets.

All of it may be large and is divided into slices, one per tick. Its progress is volatile: after a reload the
next sweep finds expired offsets again, and the erasure of a topic's offsets must be requested again.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from headgate.core.candidates import Candidates
from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import NOTHING, GroupEffects
from headgate.core.events import ExpiryReason, GroupExpired, OffsetsExpired
from headgate.core.groups import Groups
from headgate.core.kinds import ShardContext
from headgate.core.offsets.expiry import Aging, GroupClock
from headgate.core.offsets.pending import PendingOffsets
from headgate.core.offsets.removal import GroupWalk, Retention, Slice, erase_pending, erase_topic
from headgate.core.offsets.scanning import OffsetsOfTopic
from headgate.core.offsets.table import OffsetTable
from headgate.core.retentions import Retentions
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName

BETWEEN_FAILURES_MS = 1000
BETWEEN_SLICES_MS = 5
"""Pause between slices, in ms; a slice takes about as long."""
_GROUP_STEPS = 4
"""Cost of checking a group, as a number of offsets."""
_SWEEP = Timer(TimerKind.SWEEP)
_ERASE = Timer(TimerKind.ERASE)
_RECLAIM = Timer(TimerKind.RECLAIM)
_BETWEEN_RECLAIMS_MS = 10
"""Pause between slices, in ms; a slice takes some milliseconds, and is not urgent."""


@dataclass(slots=True)
class ExpiryCounts:
    """Numbers of removals by expiry since the shard was loaded."""

    offsets: Counter[ExpiryReason] = field(default_factory=Counter)
    groups: int = 0
    """Groups removed after the last of their offsets."""


class Upkeep:
    """The sweep and the erasure of one shard."""

    __slots__ = (
        "_candidates",
        "_deadlines",
        "_erased",
        "_events",
        "_failed",
        "_groups",
        "_interval_ms",
        "_offsets",
        "_paused",
        "_pending",
        "_retentions",
        "_system_time",
        "_to_erase",
        "_walk",
        "counts",
    )

    def __init__(
        self,
        context: ShardContext,
        offsets: OffsetTable,
        pending: PendingOffsets,
        groups: Groups,
        retentions: Retentions,
    ) -> None:
        self._retentions = retentions
        self._events = context.events
        self.counts = ExpiryCounts()
        self._interval_ms: int = context.settings["offsets.retention.check.interval.ms"]
        self._offsets = offsets
        self._pending = pending
        self._groups = groups
        self._paused = context.paused
        self._deadlines = context.deadlines
        self._system_time = context.system_time
        self._candidates: Candidates | None = None
        """Groups to check next; None while no sweep is in progress."""
        self._walk: GroupWalk | None = None
        """Position in the group being checked."""
        self._failed: GroupId | None = None
        """The last group that failed in a slice with other results."""
        self._to_erase: deque[tuple[TopicName, Token]] = deque()
        self._erased: OffsetsOfTopic | None = None
        """The offsets of the first topic to erase, while they are searched."""

    def loaded(self, now: Millis) -> None:
        """Start: the first sweep is one interval later."""
        self._candidates = self._walk = self._erased = None
        self._to_erase.clear()
        self._sweep_after(now, self._interval_ms)
        self.reclaim(now)

    def reclaim(self, now: Millis) -> GroupEffects:
        """Free some of the space of removed offsets in the table; continue later if there is more."""
        if self._offsets.reclaim():
            self._deadlines.set(_RECLAIM, Millis(now + _BETWEEN_RECLAIMS_MS))
        return NOTHING

    def _sweep_after(self, now: Millis, delay_ms: int) -> None:
        self._deadlines.set(_SWEEP, Millis(now + delay_ms))

    # --- expiry ---

    def sweep(self, now: Millis) -> GroupEffects:
        """Do one slice of a sweep: remove expired offsets, and empty groups without offsets.

        If the check of a group fails, raise its error without effects; the sweep continues with the next
        group.
        """
        try:
            return self._sweep(now)
        except Exception:
            self._walk = None
            self._sweep_after(now, self._interval_ms if self._candidates is None else BETWEEN_SLICES_MS)
            raise

    def _sweep(self, now: Millis) -> GroupEffects:
        system_time = self._system_time.at(now)
        if self._candidates is None:
            retentions = self._retentions
            committed_by = Millis(system_time - retentions.of_all)
            self._candidates = Candidates(
                self._offsets, self._groups.kinds, committed_by, retentions.groups()
            )
        room = Slice()
        while not (room.is_full() or self._candidates.is_over):
            if self._walk is None:
                group_id = self._next_group(self._candidates, room)
                if group_id is None:
                    break
                self._walk = GroupWalk(self._offsets, group_id)
            try:
                is_looked_at = self._sweep_group(self._walk, system_time, room)
            except Exception:
                self._walk.offsets.close()
                if not room.records or self._failed == self._walk.group_id:
                    raise
                # Return the results so far; the group fails again at the start of the next slice.
                self._failed = self._walk.group_id
                self._walk = GroupWalk(self._offsets, self._failed)
                break
            if not is_looked_at:
                break
            self._walk.offsets.close()
            self._walk = None
        is_done = self._candidates.is_over
        if is_done:
            self._candidates = None
            self.reclaim(now)
        self._sweep_after(now, self._interval_ms if is_done else BETWEEN_SLICES_MS)
        return Effects(room.records)

    def _next_group(self, candidates: Candidates, room: Slice) -> GroupId | None:
        try:
            return candidates.next(room)
        except Exception:
            self._candidates = None  # the next sweep starts again
            raise

    def _sweep_group(self, walk: GroupWalk, system_time: Millis, room: Slice) -> bool:
        """Continue with a group; return whether it is finished, or continues in the next slice."""
        room.take_steps(_GROUP_STEPS)
        group_id = walk.group_id
        kind = self._groups.find(group_id)
        clock = None if kind is None else kind.clock_of(group_id)
        if kind is None or clock is None or self._paused.of(group_id):
            return True  # it was deleted, or a member is joining, or a pause holds its clock
        if walk.is_over:
            walk.look_again()
        else:
            subscription = kind.subscription_of(group_id)
            retention_ms = self._retentions.of(group_id)
            retention = Retention(clock, subscription, self._pending, system_time, retention_ms)
            retention.expire(walk, room)
            self._report(group_id, clock, retention, is_empty=kind.is_empty(group_id))
        is_unused = walk.knows_all and not walk.stays and not self._pending.has_group(group_id)
        if is_unused and kind.is_empty(group_id):
            room.records.extend(self._groups.tombstones(group_id, kind))
            self.counts.groups += 1
            self._events.report(GroupExpired(group_id))
        return walk.knows_all

    def _report(self, group_id: GroupId, clock: GroupClock, retention: Retention, *, is_empty: bool) -> None:
        """Count and report what expired of a group."""
        reason = ExpiryReason.OLD_COMMIT if is_empty else ExpiryReason.UNSUBSCRIBED_TOPIC
        if clock.aging is Aging.SINCE_STATE:
            reason = ExpiryReason.EMPTY_GROUP
        found = (reason, retention.expired), (ExpiryReason.COMMIT_RETENTION, retention.expired_by_own_time)
        for why, count in found:
            if count:
                self.counts.offsets[why] += count
                self._events.report(OffsetsExpired(group_id, count, why, self._retentions.of(group_id)))

    # --- deleted topics ---

    def erase(self, topic: TopicName, now: Millis, token: Token) -> GroupEffects:
        """Remove all offsets of a deleted topic; the reply is sent with the last one."""
        self._to_erase.append((topic, token))
        return self.go_on_erasing(now)

    def go_on_erasing(self, now: Millis) -> GroupEffects:
        """Do one slice of the erasures. A topic that fails is tried again later; raise its error if the slice
        has no other result.
        """
        room = Slice()
        replies: list[Reply] = []
        failures: list[Exception] = []
        while len(failures) < len(self._to_erase) and not room.is_full():
            topic, token = self._to_erase[0]
            try:
                if self._erased is None:
                    erase_pending(self._pending, topic, room)
                    self._erased = self._offsets.offsets_of_topic(topic)
                is_done = erase_topic(self._erased, topic, room)
            except Exception as failure:
                failures.append(failure)
                self._erased = None
                self._to_erase.rotate(-1)
                continue
            if is_done:
                self._erased = None
                self._to_erase.popleft()
                replies.append(Reply(token, ErrorCode.NONE))
        if self._to_erase:
            wait_ms = BETWEEN_FAILURES_MS if failures else BETWEEN_SLICES_MS
            self._deadlines.set(_ERASE, Millis(now + wait_ms))
        if failures and not (room.records or replies):
            raise failures[0]
        return Effects(room.records, replies)

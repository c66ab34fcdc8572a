"""What a step of a classic group may use besides the group itself."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.classic.group import ClassicGroup, Member
from headgate.core.deadlines import Deadlines
from headgate.core.timers import Timer, TimerKind
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.domain.settings import Settings

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait for its first generation before it is taken for gone, as in Kafka."""


@dataclass(slots=True, frozen=True)
class ClassicSettings:
    """The settings that rule classic groups."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int

    @classmethod
    def of(cls, settings: Settings) -> ClassicSettings:
        """Those among the broker's settings."""
        return cls(
            min_session_timeout_ms=settings["group.min.session.timeout.ms"],
            max_session_timeout_ms=settings["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=settings["group.initial.rebalance.delay.ms"],
            max_size=settings["group.max.size"],
        )


@dataclass(slots=True)
class Turn:
    """The times of one command or deadline, the settings in force, and the shard's deadlines."""

    now: Millis
    """Steady time: for deadlines."""
    system_time: Millis
    """For what is recorded."""
    settings: ClassicSettings
    deadlines: Deadlines[Timer]

    def start_session(self, group: ClassicGroup, member: Member) -> None:
        """The member was heard of: its session begins anew."""
        self.expect(group.group_id, member.member_id, member.session_timeout_ms)

    def expect(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Remove the member, or the pending member, if it is not heard of for so long."""
        self.deadlines.set(Timer(TimerKind.SESSION, group_id, member_id), Millis(self.now + timeout_ms))

    def end_session(self, group: ClassicGroup, member_id: MemberId) -> None:
        """The member is gone: nothing more is expected of it."""
        self.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))

    def wait_for_joins(self, group: ClassicGroup, timeout_ms: int) -> None:
        """Go on with whoever has joined after this time."""
        self.deadlines.set(Timer(TimerKind.JOIN, group.group_id), Millis(self.now + timeout_ms))

    def stop_waiting_for_joins(self, group: ClassicGroup) -> None:
        """All have joined that will."""
        self.deadlines.cancel(Timer(TimerKind.JOIN, group.group_id))

    def wait_for_syncs(self, group: ClassicGroup) -> None:
        """Remove whoever has not synced after the rebalance timeout."""
        due = Millis(self.now + group.rebalance_timeout_ms)
        self.deadlines.set(Timer(TimerKind.SYNC, group.group_id), due)

    def stop_waiting_for_syncs(self, group: ClassicGroup) -> None:
        """All have synced, or a new rebalance makes it void."""
        group.pending_syncs.clear()
        self.deadlines.cancel(Timer(TimerKind.SYNC, group.group_id))

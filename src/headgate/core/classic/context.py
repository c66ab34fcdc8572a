"""The context of a step of a classic group: times, settings and timers."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.classic.group import ClassicGroup, Member
from headgate.core.classic.state import ClassicState
from headgate.core.deadlines import Deadlines
from headgate.core.events import (
    Awaited,
    Events,
    GroupCreated,
    MemberAwaited,
    MemberJoined,
    MemberRemoved,
    RemovalReason,
)
from headgate.core.timers import Timer, TimerKind
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.domain.settings import Settings

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""Time that a new member may wait for its first generation before it is removed, as in Kafka."""
REPORTED_WAIT_MS = 30_000
"""Time after which a member is reported that a rebalance waits for."""


@dataclass(slots=True, frozen=True)
class ClassicSettings:
    """The settings of classic groups."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int

    @classmethod
    def of(cls, settings: Settings) -> ClassicSettings:
        """Return these settings of the broker."""
        return cls(
            min_session_timeout_ms=settings["group.min.session.timeout.ms"],
            max_session_timeout_ms=settings["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=settings["group.initial.rebalance.delay.ms"],
            max_size=settings["group.max.size"],
        )


@dataclass(slots=True)
class ClassicContext:
    """The times of one command or deadline, the settings in force, and the shard's deadlines."""

    now: Millis
    """Steady time, for deadlines."""
    system_time: Millis
    """System time, for records."""
    settings: ClassicSettings
    deadlines: Deadlines[Timer]
    events: Events

    def joined(self, group: ClassicGroup, member: Member, client: tuple[str, str] | None = None) -> None:
        """Report a member that is about to be added, and its group if that is new.

        `client`: the id and host of the client that joined. A static member keeps those of its first one.
        """
        if not group.members and not group.generation:
            self.events.report(GroupCreated(group.group_id, "classic"))
        client_id, client_host = client or (member.client_id, member.client_host)
        self.events.report(MemberJoined(group.group_id, member.member_id, client_id, client_host))

    def removed(
        self, group: ClassicGroup, member: Member, reason: RemovalReason, client_reason: str | None = None
    ) -> None:
        """Report a removed member."""
        client = (member.client_id, member.client_host)
        self.events.report(MemberRemoved(group.group_id, member.member_id, *client, reason, client_reason))

    def awaited(self, group: ClassicGroup, member: Member) -> None:
        """Report a member for which the group has been waiting for long, once for each wait."""
        waited_ms = self.system_time - group.state_timestamp
        if waited_ms < REPORTED_WAIT_MS or member.member_id in group.reported:
            return
        group.reported.add(member.member_id)
        is_joining = group.state is ClassicState.PREPARING_REBALANCE
        awaited = Awaited.REJOIN if is_joining else Awaited.SYNC
        client = (member.client_id, member.client_host)
        self.events.report(MemberAwaited(group.group_id, member.member_id, *client, awaited, waited_ms))

    def start_session(self, group: ClassicGroup, member: Member) -> None:
        """Restart the member's session timer."""
        self.expect(group.group_id, member.member_id, member.session_timeout_ms)

    def expect(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Start a session timer; remove the member or pending member when it expires."""
        self.deadlines.set(Timer(TimerKind.SESSION, group_id, member_id), Millis(self.now + timeout_ms))

    def end_session(self, group: ClassicGroup, member_id: MemberId) -> None:
        """Cancel the session timer of a removed member."""
        self.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))

    def wait_for_joins(self, group: ClassicGroup, timeout_ms: int) -> None:
        """Start the timer for joins: the rebalance continues when it expires."""
        self.deadlines.set(Timer(TimerKind.JOIN, group.group_id), Millis(self.now + timeout_ms))

    def stop_waiting_for_joins(self, group: ClassicGroup) -> None:
        """Cancel the timer for joins."""
        self.deadlines.cancel(Timer(TimerKind.JOIN, group.group_id))

    def wait_for_syncs(self, group: ClassicGroup) -> None:
        """Start the timer for syncs: members that have not synced are removed after the rebalance timeout."""
        due = Millis(self.now + group.rebalance_timeout_ms)
        self.deadlines.set(Timer(TimerKind.SYNC, group.group_id), due)

    def stop_waiting_for_syncs(self, group: ClassicGroup) -> None:
        """Cancel the timer for syncs."""
        group.pending_syncs.clear()
        self.deadlines.cancel(Timer(TimerKind.SYNC, group.group_id))

"""The context of a step of a consumer group: times, settings, topics and timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.deadlines import Deadlines
from headgate.core.events import Events
from headgate.core.pause.paused import PausedGroups
from headgate.core.timers import Timer, TimerKind
from headgate.core.topic_image import TopicImage
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.domain.settings import Settings


@dataclass(slots=True, frozen=True)
class ConsumerSettings:
    """The settings of consumer groups, of the broker or of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    """Minimum time between two target assignments of a group (KIP-1263)."""
    max_size: int
    assignors: tuple[str, ...]
    """Names of the assignors that members may ask for; the first one is the default."""

    @classmethod
    def of(cls, settings: Settings, overrides: Mapping[str, int]) -> ConsumerSettings:
        """Return the settings of a group with these overrides, by name."""

        def own(name: str) -> int:
            value: int = settings[f"group.{name}"]
            return overrides.get(name, value)

        return cls(
            session_timeout_ms=own("consumer.session.timeout.ms"),
            heartbeat_interval_ms=own("consumer.heartbeat.interval.ms"),
            assignment_interval_ms=own("consumer.assignment.interval.ms"),
            max_size=settings["group.consumer.max.size"],
            assignors=settings["group.consumer.assignors"],
        )


@dataclass(slots=True)
class ConsumerContext:
    """The times of one command or deadline, the group's settings, the topics, and the shard's deadlines and
    paused partitions.
    """

    now: Millis
    """Steady time, for deadlines."""
    system_time: Millis
    """System time, for records."""
    settings: ConsumerSettings
    topics: TopicImage
    deadlines: Deadlines[Timer]
    paused: PausedGroups
    events: Events

    def start_session(self, group_id: GroupId, member_id: MemberId, timeout_ms: int | None = None) -> None:
        """Restart the session timer, by default with the group's timeout; remove the member when it
        expires.
        """
        due = Millis(self.now + (self.settings.session_timeout_ms if timeout_ms is None else timeout_ms))
        self.deadlines.set(Timer(TimerKind.CONSUMER_SESSION, group_id, member_id), due)

    def wait_for_revocation(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Start the timer for revocations; remove the member if it has not revoked its partitions by then."""
        timer = Timer(TimerKind.REVOCATION, group_id, member_id)
        self.deadlines.set(timer, Millis(self.now + timeout_ms))

    def stop_waiting_for_revocation(self, group_id: GroupId, member_id: MemberId) -> None:
        """Cancel the timer for revocations."""
        self.deadlines.cancel(Timer(TimerKind.REVOCATION, group_id, member_id))

    def wait_for_join(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Start the timer for a classic member's rejoin, unless it runs; remove the member when it
        expires.
        """
        timer = Timer(TimerKind.MEMBER_JOIN, group_id, member_id)
        if self.deadlines.due_at(timer) is None:
            self.deadlines.set(timer, Millis(self.now + timeout_ms))

    def stop_waiting_for_join(self, group_id: GroupId, member_id: MemberId) -> None:
        """Cancel the timer for a classic member's rejoin."""
        self.deadlines.cancel(Timer(TimerKind.MEMBER_JOIN, group_id, member_id))

    def wait_for_sync(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Start the timer for a classic member's sync; remove the member when it expires."""
        self.deadlines.set(Timer(TimerKind.MEMBER_SYNC, group_id, member_id), Millis(self.now + timeout_ms))

    def stop_waiting_for_sync(self, group_id: GroupId, member_id: MemberId) -> None:
        """Cancel the timer for a classic member's sync."""
        self.deadlines.cancel(Timer(TimerKind.MEMBER_SYNC, group_id, member_id))

    def match_patterns(self, group_id: GroupId) -> None:
        """Match the group's regular expressions in the next tick."""
        self.deadlines.set(Timer(TimerKind.PATTERNS, group_id), self.now)

    def stop_matching_patterns(self, group_id: GroupId) -> None:
        """Cancel the matching of regular expressions."""
        self.deadlines.cancel(Timer(TimerKind.PATTERNS, group_id))

    def forget(self, group_id: GroupId, member_id: MemberId) -> None:
        """Cancel all timers of a removed member."""
        self.deadlines.cancel(Timer(TimerKind.CONSUMER_SESSION, group_id, member_id))
        self.stop_waiting_for_revocation(group_id, member_id)
        self.stop_waiting_for_join(group_id, member_id)
        self.stop_waiting_for_sync(group_id, member_id)

"""What a step of a consumer group may use besides the group itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.deadlines import Deadlines
from headgate.core.pause.paused import PausedGroups
from headgate.core.timers import Timer, TimerKind
from headgate.core.topic_image import TopicImage
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.domain.settings import Settings


@dataclass(slots=True, frozen=True)
class ConsumerSettings:
    """The settings that rule consumer groups, of the broker or of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    """At least so long lies between two targets of a group (KIP-1263)."""
    max_size: int
    assignors: tuple[str, ...]
    """The names of the assignors members may ask for; the first one is for groups that ask for none."""

    @classmethod
    def of(cls, settings: Settings, overrides: Mapping[str, int]) -> ConsumerSettings:
        """Those in force for a group with these settings of its own, by their names."""

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
class ConsumerTurn:
    """The times of one command or deadline, the group's settings, the topics, and what the shard keeps of all
    groups: deadlines and pauses.
    """

    now: Millis
    """Steady time: for deadlines."""
    system_time: Millis
    """For what is recorded."""
    settings: ConsumerSettings
    topics: TopicImage
    deadlines: Deadlines[Timer]
    paused: PausedGroups

    def start_session(self, group_id: GroupId, member_id: MemberId, timeout_ms: int | None = None) -> None:
        """The member was heard of: remove it if it is not for a session's time, the group's unless told."""
        due = Millis(self.now + (self.settings.session_timeout_ms if timeout_ms is None else timeout_ms))
        self.deadlines.set(Timer(TimerKind.CONSUMER_SESSION, group_id, member_id), due)

    def wait_for_revocation(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Remove the member if it has not let its partitions go after this time."""
        timer = Timer(TimerKind.REVOCATION, group_id, member_id)
        self.deadlines.set(timer, Millis(self.now + timeout_ms))

    def stop_waiting_for_revocation(self, group_id: GroupId, member_id: MemberId) -> None:
        """The member has let its partitions go, or need not."""
        self.deadlines.cancel(Timer(TimerKind.REVOCATION, group_id, member_id))

    def wait_for_join(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Remove the classic member if it has not joined again so long after it was first told to."""
        timer = Timer(TimerKind.MEMBER_JOIN, group_id, member_id)
        if self.deadlines.due_at(timer) is None:
            self.deadlines.set(timer, Millis(self.now + timeout_ms))

    def stop_waiting_for_join(self, group_id: GroupId, member_id: MemberId) -> None:
        """The classic member has joined again, or need not."""
        self.deadlines.cancel(Timer(TimerKind.MEMBER_JOIN, group_id, member_id))

    def wait_for_sync(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        """Remove the classic member if it has not asked for its assignment after this time."""
        self.deadlines.set(Timer(TimerKind.MEMBER_SYNC, group_id, member_id), Millis(self.now + timeout_ms))

    def stop_waiting_for_sync(self, group_id: GroupId, member_id: MemberId) -> None:
        """The classic member has asked for its assignment, or need not."""
        self.deadlines.cancel(Timer(TimerKind.MEMBER_SYNC, group_id, member_id))

    def match_patterns(self, group_id: GroupId) -> None:
        """Match the group's regular expressions when this turn is over."""
        self.deadlines.set(Timer(TimerKind.PATTERNS, group_id), self.now)

    def stop_matching_patterns(self, group_id: GroupId) -> None:
        """The group is gone, or nobody subscribes by an expression."""
        self.deadlines.cancel(Timer(TimerKind.PATTERNS, group_id))

    def forget(self, group_id: GroupId, member_id: MemberId) -> None:
        """The member is gone: nothing more is expected of it."""
        self.deadlines.cancel(Timer(TimerKind.CONSUMER_SESSION, group_id, member_id))
        self.stop_waiting_for_revocation(group_id, member_id)
        self.stop_waiting_for_join(group_id, member_id)
        self.stop_waiting_for_sync(group_id, member_id)

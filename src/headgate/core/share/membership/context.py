"""The context of a step of a share group: times, settings, topics and timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from headgate.core.deadlines import Deadlines
from headgate.core.events import Events
from headgate.core.timers import Timer
from headgate.core.topic_image import TopicImage
from headgate.domain.ids import GroupId, MemberId, Millis
from headgate.domain.settings import Settings


class ShareTimer(IntEnum):
    """The deadlines of share groups in a shard of groups."""

    SESSION = 110
    """The session of a member has expired: remove it."""
    TOPICS = 111
    """A topic of the group was deleted: forget its share-partitions."""


@dataclass(slots=True, frozen=True)
class ShareSettings:
    """The settings of share groups that their membership needs, of the broker or of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    max_size: int
    initialize_retry_ms: int
    """Time after which an initialization that was not confirmed is requested again."""

    @classmethod
    def of(cls, settings: Settings, overrides: Mapping[str, int]) -> ShareSettings:
        """Return the settings of a group with these overrides, by name."""

        def own(name: str) -> int:
            value: int = settings[f"group.{name}"]
            return overrides.get(name, value)

        return cls(
            session_timeout_ms=own("share.session.timeout.ms"),
            heartbeat_interval_ms=own("share.heartbeat.interval.ms"),
            assignment_interval_ms=own("share.assignment.interval.ms"),
            max_size=settings["group.share.max.size"],
            initialize_retry_ms=settings["group.share.initialize.retry.interval.ms"],
        )


@dataclass(slots=True, frozen=True)
class ShareContext:
    """The times of one command or deadline, the group's settings, the topics, and the shard's deadlines and
    events.
    """

    now: Millis
    """Steady time, for deadlines."""
    system_time: Millis
    """System time, for records."""
    settings: ShareSettings
    topics: TopicImage
    deadlines: Deadlines[Timer]
    events: Events

    def start_session(self, group_id: GroupId, member_id: MemberId) -> None:
        """Restart the session timer; remove the member when it expires."""
        due = Millis(self.now + self.settings.session_timeout_ms)
        self.deadlines.set(Timer(ShareTimer.SESSION, group_id, member_id), due)

    def end_session(self, group_id: GroupId, member_id: MemberId) -> None:
        """Cancel the session timer of a removed member."""
        self.deadlines.cancel(Timer(ShareTimer.SESSION, group_id, member_id))
